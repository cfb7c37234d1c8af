/** An assistant backend with files in memory. The service calls it through its real HTTP interface. */
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpEffect } from "effect/http"
import { AssistantBackend } from "../../services/files/AssistantBackend.ts"
import * as InProcess from "../node/InProcess.ts"

const origin = "http://backend.test"
const storagePath = "/storage/"

const json = (status: number, body: object) => Response.json(body, { status })

export interface TestBackend {
  readonly layer: Layer.Layer<AssistantBackend>
  /** The file at a public download link; undefined for all other URLs. */
  readonly download: (url: URL) => Response | undefined
}

export const make = (serviceUrl: string): TestBackend => {
  const files = new Map<string, File>()

  const storeFile = (form: FormData) => {
    const file = form.get("file")
    if (!(file instanceof File)) {
      return json(422, { message: "The file is missing.", errors: { file: ["This field is required"] } })
    }
    const id = files.size + 1
    const path = `${id}/${file.name}`
    files.set(path, file)
    return json(201, { id, name: file.name, mime_type: file.type, provider_data: { path } })
  }

  const respond = (request: Request) => {
    switch (new URL(request.url).pathname) {
      case "/files":
        return request.formData().then(storeFile)
      case "/storage/base":
        return Promise.resolve(json(200, { url: serviceUrl + storagePath.slice(0, -1) }))
      default:
        return Promise.resolve(json(404, { message: "Not found." }))
    }
  }

  return {
    layer: AssistantBackend.layer(origin).pipe(
      Layer.provide([InProcess.layerClient(HttpEffect.fromWebHandler(respond)), SecureRandom.layerWebCrypto])
    ),
    download: ({ pathname }) => {
      if (!pathname.startsWith(storagePath)) return undefined
      const file = files.get(decodeURIComponent(pathname.slice(storagePath.length)))
      return file === undefined ? json(404, { message: "File not found." }) : new Response(file)
    }
  }
}
