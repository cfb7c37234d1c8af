/** JSON Schemas of values without an Effect schema: errors, and JSON that the gateway does not decode (`turns`, `client_tools`, `turn`). */

// oxlint-disable-next-line typescript/no-explicit-any -- JSON Schema of any shape
export type Node = Record<string, any>

export const schemaRef = (name: string) => ({ $ref: `#/components/schemas/${name}` })

const jsonObjects = { type: "array", items: schemaRef("JsonObject") }

const object = (description: string, properties: Node, required: ReadonlyArray<string>): Node => ({
  type: "object",
  description,
  properties,
  required
})

const always = (value: string) => ({ type: "string", enum: [value], description: `Always \`${value}\`.` })
const text = (description: string) => ({ type: "string", description })
const toolName = { type: "string", pattern: "^[A-Za-z0-9_-]{1,64}$", description: "Unique within the request." }
const outputFile = { ...schemaRef("OutputFile"), description: "The file." }

const outputSchemas: Node = {
  Turn: {
    type: "object",
    description: "The assistant's answer, unchanged from the processing core: any field may be missing.",
    properties: {
      output: {
        type: "array",
        items: schemaRef("OutputItem"),
        description: "Output for the user: text, images and files, never inline bytes."
      },
      messages: { ...jsonObjects, description: "The model's messages in full." },
      metadata: {
        ...schemaRef("JsonObject"),
        description: "`model`, `finish_reason`, `usage`, `transcriptions` and more."
      },
      interrupt: { description: "Reason of an interrupted turn." }
    }
  },
  OutputItem: {
    description: "One item of output. Ignore items of types that you do not know: types may be added.",
    anyOf: ["TextOutput", "ImageOutput", "FileOutput", "UnknownOutput"].map(schemaRef)
  },
  TextOutput: object("A piece of text.", { type: always("text"), text: text("Text for the user.") }, ["type", "text"]),
  ImageOutput: object("An image.", { type: always("image"), file: outputFile }, ["type", "file"]),
  FileOutput: object("A file.", { type: always("file"), file: outputFile }, ["type", "file"]),
  UnknownOutput: {
    ...object("An item of another type.", { type: text("Any type."), text: text("Text for the user.") }, ["type"]),
    additionalProperties: true
  },
  OutputFile: object("A stored file. Its download link is the storage URL, `/`, and `provider_data.path`.", {
    id: text("Always a string."),
    name: text("File name."),
    mime_type: text("Media type."),
    provider_data: object("Location of the file in the storage.", { path: text("Storage-relative path.") }, ["path"])
  }, ["id", "name", "mime_type", "provider_data"])
}

export const opaqueSchemas: Node = {
  ApiError: object("Why the request failed.", {
    message: text("The problem in words."),
    code: text("A stable word for the problem, as in `too_many_active_tasks`. More may be added.")
  }, ["message", "code"]),
  JsonObject: { type: "object", description: "Any JSON object.", additionalProperties: true },
  ...outputSchemas,
  ConversationItem: {
    description: "A message, or the whole `turn` of an earlier task, whose `messages` are inserted.",
    anyOf: ["ConversationMessage", "Turn"].map(schemaRef)
  },
  ConversationMessage: object("A message.", {
    role: { type: "string", enum: ["user", "assistant", "system"], description: "Author of the message." },
    content: { anyOf: [{ type: "string" }, jsonObjects], description: "Text, or an array of parts." }
  }, ["role", "content"]),
  ClientToolDefinition: {
    description: "A client tool. The nested, MCP and Anthropic forms are accepted too and converted.",
    anyOf: ["ClientTool", "NestedClientTool", "McpClientTool", "AnthropicClientTool"].map(schemaRef)
  },
  ClientTool: object("A function that the client runs for the model.", {
    type: always("function"),
    name: toolName,
    description: { type: ["string", "null"], description: "Tells the model when and how to call the tool." },
    parameters: { anyOf: [schemaRef("JsonObject"), { type: "null" }], description: "JSON Schema of its arguments." },
    strict: { type: ["boolean", "null"], description: "True if arguments must match `parameters` exactly." },
    output_schema: { ...schemaRef("JsonObject"), description: "JSON Schema of its output, for forms." }
  }, ["type", "name"]),
  NestedClientTool: object("OpenAI's nested form.", {
    type: always("function"),
    function: { ...schemaRef("JsonObject"), description: "`name`, `description`, `parameters`, `strict`." }
  }, ["type", "function"]),
  McpClientTool: object("MCP's form.", {
    name: toolName,
    inputSchema: { ...schemaRef("JsonObject"), description: "JSON Schema of its arguments." }
  }, ["name", "inputSchema"]),
  AnthropicClientTool: object("Anthropic's form.", {
    name: toolName,
    input_schema: { ...schemaRef("JsonObject"), description: "JSON Schema of its arguments." }
  }, ["name", "input_schema"])
}
