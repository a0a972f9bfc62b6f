"""GroUSE's unit tests of a judge: does it see each way in which a grounded answer can fail?"""
