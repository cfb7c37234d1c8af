/** What the service is, as it describes itself. */
import { signal } from "@preact/signals"

export interface ConsoleConfig {
  readonly version: string
  readonly audiences: ReadonlyArray<"users" | "operators">
  readonly dev_login: boolean
  /** The names of the extensions that the service has. */
  readonly extensions: ReadonlyArray<string>
  /** Origins whose images a click shows. */
  readonly image_origins?: ReadonlyArray<string>
  readonly limits: {
    readonly max_active_tasks: number
    readonly file_bytes: number
    readonly formats: ReadonlyArray<string>
  }
}

export const config = signal<ConsoleConfig>({
  version: "",
  audiences: [],
  dev_login: false,
  extensions: [],
  limits: { max_active_tasks: 0, file_bytes: 0, formats: [] }
})

export const loadConfig = async () => {
  const response = await fetch("/console/config.json")
  if (!response.ok) throw new Error(`The service answered ${response.status}`)
  config.value = await response.json()
}
