"""Reports: a study fills one document with blocks, which pages, Markdown and the terminal show."""
