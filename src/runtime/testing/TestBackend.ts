/** An assistant backend that keeps files in memory, spoken to over its real wire (CONTRACT 5). */
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { AssistantBackend } from "../../services/AssistantBackend.ts"
import * as InProcess from "../InProcess.ts"

const origin = "http://backend.test"
const storagePath = "/storage/"

const json = (status: number, body: object) => Response.json(body, { status })

export interface TestBackend {
  readonly layer: Layer.Layer<AssistantBackend>
  /** Downloads by their public link; undefined for every other address. */
  readonly download: (url: URL) => Response | undefined
}

export const make = (serviceUrl: string): TestBackend => {
  const files = new Map<string, File>()

  const takeFile = (form: FormData) => {
    const file = form.get("file")
    if (!(file instanceof File)) return json(422, { message: "No file.", errors: { file: ["This field is required"] } })
    const id = files.size + 1
    const path = `${id}/${file.name}`
    files.set(path, file)
    return json(201, { id, name: file.name, mime_type: file.type, provider_data: { path } })
  }

  const answer: InProcess.Fetch = (input, init) => {
    const request = new Request(input, init)
    switch (new URL(request.url).pathname) {
      case "/files":
        return request.formData().then(takeFile)
      case "/storage/base":
        return Promise.resolve(json(200, { url: serviceUrl + storagePath.slice(0, -1) }))
      default:
        return Promise.resolve(json(404, { message: "There is nothing at this address." }))
    }
  }

  return {
    layer: AssistantBackend.layer(origin).pipe(
      Layer.provide([InProcess.layerClient(new Map([[origin, answer]])), SecureRandom.layerWebCrypto])
    ),
    download: ({ pathname }) => {
      if (!pathname.startsWith(storagePath)) return undefined
      const file = files.get(decodeURIComponent(pathname.slice(storagePath.length)))
      return file === undefined ? json(404, { message: "There is no such file." }) : new Response(file)
    }
  }
}
