/** The cards by which clients find the agents: one a model. */
import { Duration } from "effect"
import { clientTools, revision } from "./Params.ts"

const longestHold = "SendMessage answers after 10 minutes at the latest, with the state of the task as it is then."

const extension = (uri: string, description: string) => ({ uri, description, required: false })

/** `url` is the address of the agent. */
export const cardOf = (model: string, url: string, version: string) => ({
  name: model,
  description:
    `The assistant ${model}. It works in the background, on tasks that outlive the connection. ${longestHold}`,
  version,
  supportedInterfaces: ["1.0", "0.3"].map((protocolVersion) => ({ url, protocolBinding: "JSONRPC", protocolVersion })),
  // For clients of version 0.3.
  url,
  preferredTransport: "JSONRPC",
  protocolVersion: "0.3.0",
  capabilities: {
    streaming: true,
    pushNotifications: false,
    extendedAgentCard: false,
    extensions: [
      extension(clientTools, "Functions of the client that the assistant may call."),
      extension(revision, "The revision of the task in metadata.revision.")
    ]
  },
  securitySchemes: { jwt: { httpAuthSecurityScheme: { scheme: "Bearer", bearerFormat: "JWT" } } },
  securityRequirements: [{ schemes: { jwt: { list: [] } } }],
  security: [{ jwt: [] }],
  defaultInputModes: ["text/plain", "application/json", "application/octet-stream"],
  defaultOutputModes: ["text/plain", "application/octet-stream"],
  skills: [{
    id: model,
    name: model,
    description: `Whatever the assistant ${model} is made for.`,
    tags: ["assistant"]
  }]
})

export const cacheControl = `max-age=${Duration.toSeconds(Duration.minutes(5))}`
