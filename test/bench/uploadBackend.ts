/** The backend of the upload benchmark, in a separate process. It counts and hashes the received bytes. */
import { ScriptedBackend } from "../kit/ScriptedBackend.ts"

await new ScriptedBackend().listen(Number(process.env["PORT"]))
