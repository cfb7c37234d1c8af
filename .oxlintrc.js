/** The rules of the linter: its own categories, and which folder may import which. */

import * as fs from "node:fs"

/** Each has a folder of its name below `src/runtime/extensions`, `src/http` and `src/services`, as far as it has code there. */
const extensions = fs.readdirSync(new URL("src/runtime/extensions/", import.meta.url))

/** The extensions that import what façades share, the folders `facades`. */
const facades = ["openai", "mcp", "a2a"]

/** Which folders of `src/services` the folders there import, besides the domain and themselves. */
const services = {
  settings: [],
  timing: ["settings"],
  telemetry: [],
  limits: ["telemetry"],
  cluster: [],
  signals: ["telemetry", "timing", "limits"],
  store: ["signals", "telemetry", "timing", "settings", "limits"],
  core: ["store", "telemetry", "timing", "settings", "limits"],
  files: ["telemetry", "timing", "settings", "limits"],
  tokens: ["store", "telemetry", "timing", "settings", "limits"],
  webhooks: ["tasks", "store", "signals", "telemetry", "timing", "settings", "tokens", "limits"],
  actors: ["cluster", "core", "store", "signals", "telemetry", "timing", "settings", "tokens", "limits"],
  tasks: [
    "actors",
    "cluster",
    "core",
    "operations",
    "store",
    "signals",
    "telemetry",
    "timing",
    "settings",
    "tokens",
    "limits"
  ],
  operations: ["actors", "cluster", "store", "signals", "telemetry", "timing", "settings"]
}

const effectOnly = { regex: "^([a-df-z@]|e[^f])", message: "only effect comes in from outside here" }
const effectAndPostgres = {
  regex: "^([a-df-z]|e[^f]|@[^e]|@effect/[^s])",
  message: "only effect and sql-pg come in from outside here"
}
const effectAndJose = {
  regex: "^([a-df-ik-z@]|e[^f]|j[^o])",
  message: "only effect and jose come in from outside here"
}

/** Forbids imports of ours through any of the folders. */
const without = (folders, message, more) => ({
  regex: `^\\.{1,2}/(.*/)?(${folders.join("|")})/`,
  message,
  ...more
})

const noExtension = without(["extensions", ...extensions], "the core imports no extension")
const foreignTo = (name) =>
  extensions.filter((other) => other !== name && !(other === "facades" && facades.includes(name)))
const noOther = (name) => ({
  regex: `^\\.{1,2}/(.*/)?(${foreignTo(name).join("|")})(/|\\.ts$)`,
  message: "an extension imports the core and itself only, a façade also what façades share"
})

const noHttp = without(["http", "runtime"], "services import domain only")
const noRuntime = without(["runtime"], "runtime wires http, not the reverse")

const imports = (files, patterns, rules) => ({
  files,
  rules: { "eslint/no-restricted-imports": ["error", { patterns }], ...rules }
})

const outsideOf = (folder) => folder === "store" ? effectAndPostgres : folder === "tokens" ? effectAndJose : effectOnly

const neverHtml = (member) => ({ ...member, message: "text becomes elements, never HTML" })

const consoleRules = {
  "eslint/no-await-in-loop": "off",
  "eslint/no-restricted-globals": ["error", "eval", "Function"],
  "eslint/no-restricted-properties": [
    "error",
    ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => neverHtml({ property })),
    neverHtml({ object: "document", property: "write" })
  ]
}

const ofConsole = [
  without(
    ["openai", "operator", "contract", "domain", "services", "handlers", "rpc", "runtime"],
    "the console imports the Promise client and itself"
  ),
  {
    regex: "^([a-lnoq-z]|m[^a]|p[^r]|@[^pc])",
    message: "the console's bundle has preact, signals, the lexer of marked and a validator of JSON Schema only"
  }
]

/** Where a file has several entries, the last one with a rule counts. */
const overrides = [
  imports(["src/domain/**"], [
    without(["services", "http", "runtime"], "domain imports nothing of ours"),
    effectOnly
  ]),
  imports(["src/services/**"], [noHttp, noExtension, effectOnly], {
    "eslint/no-restricted-properties": ["error", {
      object: "JSON",
      property: "parse",
      message: "some versions of V8 give a document the keys of another one: use domain/json"
    }]
  }),
  ...Object.entries(services).flatMap(([folder, others]) => {
    const forbidden = Object.keys(services).filter((other) => other !== folder && !others.includes(other))
    const message = `services/${folder} imports ${["domain", ...others].join(", ")} and itself`
    const noOthers = (up) => ({ regex: `^${up}(TaskEngine\\.ts|(${forbidden.join("|")})/)`, message })
    return [
      imports([`src/services/${folder}/*`], [noHttp, noExtension, outsideOf(folder), noOthers("\\.\\./")]),
      imports([`src/services/${folder}/*/**`], [noHttp, noExtension, outsideOf(folder), noOthers("(\\.\\./){2,}")])
    ]
  }),
  imports(["src/http/contract/**", "src/http/client/**"], [
    without(["services", "handlers", "runtime"], "what ships to clients imports contract and domain only"),
    noExtension,
    effectOnly
  ]),
  imports(["src/http/handlers/**", "src/http/rpc/**", "src/http/*.ts"], [noRuntime, noExtension, effectOnly]),
  imports(["src/runtime/**"], [noExtension]),
  // The lists of extensions.
  imports(["src/runtime/extensions.ts", "src/http/client/promise/resources.ts"], []),
  imports(["test/**"], [noExtension]),
  ...extensions.flatMap((name) => [
    imports([`src/services/${name}/**`], [noHttp, noOther(name), effectAndPostgres]),
    imports([`src/http/${name}/**`], [noRuntime, noOther(name), effectOnly]),
    imports([`src/runtime/extensions/${name}/**`], [noOther(name)]),
    imports([`test/**/${name}/**`, `test/**/${name}.ts`], [])
  ]),
  imports(["src/http/console/**"], ofConsole, consoleRules),
  // Its screens of extensions are in folders of their names, and listed in `extensions.ts`.
  imports(["src/http/console/{components,screens}/**", "src/http/console/[!e]*.{ts,tsx}"], [...ofConsole, noExtension]),
  { files: ["test/**"], rules: { "eslint/no-await-in-loop": "off" } },
  {
    files: [
      "test/{bench,package,generators,sdks,docs,examples,mutants,nightly}/**",
      "test/chaos/{main,webhooks}.ts",
      "test/simulation/{growth,main}.ts",
      "test/http/client/receivers/node.ts"
    ],
    rules: { "eslint/no-console": "off" }
  },
  {
    files: ["src/http/client/{core,promise}/**"],
    rules: { "eslint/no-await-in-loop": "off", "unicorn/prefer-add-event-listener": "off" }
  }
]

export default {
  plugins: ["typescript", "import", "oxc", "eslint", "unicorn", "node", "vitest"],
  categories: { correctness: "error", suspicious: "error", perf: "error" },
  rules: {
    "eslint/no-console": "error",
    "import/no-cycle": ["error", { ignoreTypes: false }],
    "import/no-self-import": "error",
    "import/no-duplicates": "error",
    "typescript/consistent-type-imports": ["error", { fixStyle: "inline-type-imports" }],
    "typescript/array-type": ["error", { default: "generic", readonly: "generic" }],
    "eslint/no-underscore-dangle": "off",
    "eslint/no-shadow": "off",
    "eslint/require-yield": "off",
    "unicorn/consistent-function-scoping": "off",
    "unicorn/no-array-callback-reference": "off",
    "unicorn/no-array-method-this-argument": "off",
    "oxc/no-map-spread": "off"
  },
  overrides
}
