/** The backend of the upload benchmark, in a process of its own: it counts bytes and hashes them. */
import { ScriptedBackend } from "../kit/ScriptedBackend.ts"

await new ScriptedBackend().listen(Number(process.env["PORT"]))
