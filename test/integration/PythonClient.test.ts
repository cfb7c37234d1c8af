/** The Python client: its wheel, its suites, its types, and every program of its page, as a stranger would use them. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { hasModules, hasPython, runPython } from "../kit/python.ts"
import { mint } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const root = path.resolve(import.meta.dirname, "../..")
const client = path.join(root, "src/http/client/python")
const suites = path.join(root, "test/http/client/python")
const folder = useDirectory()
const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
const installed = path.join(folder, "installed")

/** Returns what the program prints. */
const run = async (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}, cwd = folder) => {
  const { output, status } = await runPython(args, { cwd, env: { PYTHONPATH: installed, ...env } })
  assert.strictEqual(status, 0, output)
  return output.trimEnd()
}

const { service } = await use(startSystem({ CORE_URL: "", DATA_DIR: useDirectory(), WEBHOOK_ALLOW_PRIVATE: "true" }))
const environment = async (sub: string) => ({
  TASK_SERVICE_URL: service.url,
  TASK_SERVICE_TOKEN: await mint(sub),
  WEBHOOK_SECRET: "a secret of the reader"
})

/** Installs the wheel as pip does, which machines may lack: a wheel of pure Python is unpacked. */
const install = async () => {
  const wheel = (await run([path.join(client, "build_backend.py"), folder])).split("\n").at(-1) ?? ""
  await run(["-m", "zipfile", "-e", wheel, installed])
  return path.resolve(folder, wheel)
}
const wheel = hasPython ? await install() : ""

interface Outcome {
  readonly name: string
  readonly problems: string
}

const names = fs.readdirSync(suites).filter((name) => name.startsWith("test_"))

/** The outcome of each test of a suite. */
const outcomesOf = async (suite: string): Promise<ReadonlyArray<Outcome>> => {
  const module = suite.replace(".py", "")
  const printed = await run(["-W", "error::ResourceWarning", path.join(suites, "run.py"), module], {
    ...await environment(module),
    PYTHONPATH: `${installed}:${suites}`
  })
  const outcomes = printed.split("\n").filter((line) => line.startsWith("{")).map((line): Outcome => JSON.parse(line))
  return outcomes.map((outcome) => ({ ...outcome, name: `${module}: ${outcome.name}` }))
}
const outcomes = hasPython ? (await Promise.all(names.map(outcomesOf))).flat() : []

/** The programs of the page. All but those with imports of the package's client or of webhooks use the first one's `client`. */
const blocks = [...fs.readFileSync(path.join(client, "README.md"), "utf8").matchAll(/^```py\n(.*?)^```/gms)]
  .map(([, code = ""]) => code)
const [first = ""] = blocks
const start = first.slice(0, first.indexOf("task ="))
const isReceiver = (code: string) => code.includes("verify_webhook")

/** Lets a receiver of the page receive one webhook of the service, and one without signature. */
const receiveOne = (serve: string) => `

import socket
import threading
import time
import urllib.error
import urllib.request

from async_task_service_client import TaskServiceClient

with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
threading.Thread(target=lambda: ${serve}, daemon=True).start()
url = f"http://127.0.0.1:{port}/webhooks"
for _ in range(200):
    try:
        urllib.request.urlopen(url, b"{}")
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
        break
    except OSError:
        time.sleep(0.05)
client = TaskServiceClient(os.environ["TASK_SERVICE_URL"], os.environ["TASK_SERVICE_TOKEN"])
uuid = client.tasks.create({
    "assistant_id": 1,
    "input": [{"type": "text", "text": "echo hello"}],
    "callback_url": url,
    "callback_secret": os.environ["WEBHOOK_SECRET"],
})["uuid"]
for _ in range(200):
    deliveries = client.tasks.deliveries(uuid)
    if deliveries and deliveries[0]["state"] == "delivered":
        print(deliveries[0]["attempts"][0]["response_status"])
        break
    time.sleep(0.05)
`

interface Program {
  /** What it prints. */
  readonly expected: RegExp
  /** Modules that it needs besides those of Python. */
  readonly needs?: ReadonlyArray<string>
  readonly tail?: string
}

const received = /^401 missing_signature\n.*^\S+ \S+ completed\n.*^204$/ms

/** In the order of the page. */
const programs: ReadonlyArray<Program> = [
  { expected: /^completed 42/ },
  {
    expected:
      /^\S+ interrupted\n(\S+ processing\n)?\S+ completed\ncompleted call_weather answered \{"city":"call weather","sky":"clear"\}$/m
  },
  { expected: /^completed$/ },
  { expected: received, needs: ["flask"], tail: receiveOne("app.run(port=port)") },
  {
    expected: received,
    needs: ["fastapi", "uvicorn"],
    tail: receiveOne("__import__(\"uvicorn\").run(app, port=port, log_level=\"critical\")")
  },
  { expected: /^invalid: .*assistant_id/ },
  { expected: /42/ },
  { expected: /^26 of 26 bytes\ncompleted http\S+notes.txt$/ },
  { expected: /^0 pending\n1 processing\n(.*\n)*[1-9]\d*\n\S+ completed/ },
  { expected: /42/ },
  { expected: /^\[\{'order': '7'\}, \{'order': '7'\}\]\n.*'What is 7 \* 7\?'/ },
  { expected: /^active \['20.*\ncompleted \['created'\]\n1 \d+$/ }
]

const fileOf = (index: number) => path.join(folder, `program${index}.py`)
for (const [index, code] of blocks.entries()) {
  const isComplete = code === first || isReceiver(code)
  fs.writeFileSync(fileOf(index), `${isComplete ? "" : start}${code}${programs[index]?.tail ?? ""}`)
}

describe.skipIf(!hasPython)("the Python client", () => {
  it("is a wheel smaller than 60 kB with nothing to install beside it", async () => {
    assert.isBelow(fs.statSync(wheel).size, 60_000)
    assert.include(wheel, `-${version}-`)
    const print = "import importlib.metadata as m; print(m.metadata('async-task-service-client'))"
    assert.match(
      await run(["-c", print]),
      new RegExp(`^Version: ${version}\nSummary: .*\nKeywords: .*\n(Classifier: .*\n)+Requires-Python: >=3.9$`, "m")
    )
    assert.notInclude(await run(["-c", print]), "Requires-Dist")
  })

  it.skipIf(!hasModules("pip"))("is what pip installs without a network", async () => {
    const target = path.join(folder, "by-pip")
    await run(["-m", "pip", "install", "--no-index", "--disable-pip-version-check", "--target", target, wheel])
    assert.sameMembers(
      fs.readdirSync(path.join(target, "async_task_service_client")).filter((name) => name !== "__pycache__"),
      fs.readdirSync(path.join(client, "async_task_service_client")).filter((name) => name !== "__pycache__")
    )
  })

  it.skipIf(!hasModules("pip", "ensurepip"))(
    "is what pip makes of the sdist, and of the folder for an editable installation",
    async () => {
      const venv = path.join(folder, "venv")
      await run(["-m", "venv", venv])
      const inVenv = (...args: ReadonlyArray<string>) =>
        execFileSync(path.join(venv, "bin/python"), args, { encoding: "utf8", cwd: folder })
      const install = (...args: ReadonlyArray<string>) =>
        inVenv("-m", "pip", "--disable-pip-version-check", "install", "--no-index", ...args)
      const found = () => inVenv("-c", "import async_task_service_client as c; print(c.__file__)")
      install(wheel.replace("-py3-none-any.whl", ".tar.gz"))
      assert.include(found(), "site-packages")
      install("--editable", client)
      assert.include(found(), client)
    }
  )

  it("has links to the repository that package.json names, or none", async () => {
    const linksOf = (metadata: string) => [...metadata.matchAll(/\]\(([^)]*)\)/g)].map(([, link = ""]) => link)
    const read = `import sys, zipfile as z; print(z.ZipFile(sys.argv[1]).read(sys.argv[2]).decode())`
    const metadataOf = (file: string) =>
      run(["-c", read, file, `async_task_service_client-${version}.dist-info/METADATA`])
    assert.deepStrictEqual(linksOf(await metadataOf(wheel)).filter((link) => !link.startsWith("https://")), [])
    const checkout = path.join(folder, "checkout")
    const copy = path.join(checkout, "src/http/client/python")
    fs.cpSync(client, copy, { recursive: true })
    const homepage = "https://github.com/owner/name"
    fs.writeFileSync(path.join(checkout, "package.json"), JSON.stringify({ version, homepage }))
    const [built = ""] = (await run([path.join(copy, "build_backend.py"), checkout])).split("\n").slice(-1)
    const metadata = await metadataOf(built)
    assert.include(metadata, `Project-URL: Homepage, ${homepage}\n`)
    const links = linksOf(metadata).filter((link) => link.startsWith(homepage))
    assert.isNotEmpty(links)
    for (const link of links) {
      const [file = ""] = link.slice(`${homepage}/blob/v${version}/`.length).split("#")
      assert.isTrue(fs.existsSync(path.join(root, file)), link)
    }
  })

  it("runs its suites", () => assert.isAbove(outcomes.length, 60))
  for (const { name, problems } of outcomes) it(`${name}`, () => assert.strictEqual(problems, ""))

  it("has an expectation for every program of its page", () => assert.lengthOf(blocks, programs.length))

  for (const [index, { expected, needs = [] }] of programs.entries()) {
    const missing = needs.length > 0 && !hasModules(...needs)
    it.skipIf(missing)(
      `runs program ${index} of its page${missing ? `, but ${needs.join(" or ")} is missing` : ""}`,
      async () => {
        // Users have no tasks but their own, so that each list is that of its program.
        assert.match(await run([fileOf(index)], await environment(`python-${index}`)), expected)
      }
    )
  }

  it.skipIf(!hasModules("mypy"))("is typed for mypy --strict, and the programs of its page for mypy", async () => {
    const cache = ["--cache-dir", path.join(root, "node_modules/.cache/mypy")]
    const success = /^Success: no issues found/
    assert.match(await run(["-m", "mypy", "--config-file", "pyproject.toml", ...cache], {}, client), success)
    // Reading Flask and FastAPI takes mypy minutes.
    const files = blocks.flatMap((code, index) => isReceiver(code) ? [] : [fileOf(index)])
    assert.match(await run(["-m", "mypy", "--scripts-are-modules", ...cache, ...files]), success)
  }, 180_000)

  it.skipIf(!hasModules("ruff"))("is clean for ruff, which Debian 12 lacks", async () => {
    const sources = ["async_task_service_client", "build_backend.py"]
    assert.match(await run(["-m", "ruff", "check", "--no-cache", ...sources], {}, client), /^All checks passed/)
    assert.match(
      await run(["-m", "ruff", "format", "--no-cache", "--check", ...sources], {}, client),
      /already formatted/
    )
  })
})
