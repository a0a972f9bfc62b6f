"use strict";

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  layout: "BaseLayout",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
});
