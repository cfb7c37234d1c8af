/** The routes of the OpenAI façade, which name spans. */
export const routes = {
  "/v1/responses": "POST",
  "/v1/responses/:id": "GET",
  "/v1/responses/:id/cancel": "POST",
  "/v1/responses/:id/input_items": "GET",
  "/v1/files": "POST",
  "/v1/files/:id": "GET",
  "/v1/files/:id/content": "GET",
  "/v1/models": "GET",
  "/v1/models/:id": "GET"
} as const
