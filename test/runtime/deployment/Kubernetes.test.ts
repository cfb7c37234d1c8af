import { Result } from "effect"
import { Deployment } from "kubernetes-models/apps/v1"
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2"
import { Job } from "kubernetes-models/batch/v1"
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1"
import { PodDisruptionBudget } from "kubernetes-models/policy/v1"
import { ConfigMap, Secret, Service } from "kubernetes-models/v1"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { parse, parseAllDocuments } from "yaml"
import { definitions, prometheusName } from "../../../src/services/telemetry/Metrics.ts"
import { instructionsOf } from "../../kit/Containerfile.ts"
import { removeDirectory, temporaryDirectory } from "../../kit/directories.ts"
import { chart, hasTools, kustomize, plainManifests, render, runHelm } from "../../kit/kubernetesTools.ts"
import { assertKnown, load, problemsOf, secrets } from "./environments.ts"

const root = path.resolve(import.meta.dirname, "../../..")
const folder = path.join(root, "src/runtime/deployment")
const manifests = parseAllDocuments(fs.readFileSync(path.join(folder, "kubernetes.yaml"), "utf8"))
  .map((document) => document.toJSON())

const models = {
  ConfigMap,
  Deployment,
  HorizontalPodAutoscaler,
  Job,
  NetworkPolicy,
  PodDisruptionBudget,
  Secret,
  Service
}
type Kind = keyof typeof models
const kinds = Object.keys(models) as ReadonlyArray<Kind>

const manifestsOf = (kind: Kind) => manifests.filter((manifest) => manifest.kind === kind)
const manifestOf = (kind: Kind) => manifestsOf(kind)[0]
const deployment = new Deployment(manifestOf("Deployment"))
const pod = deployment.spec!.template.spec!
const container = pod.containers[0]!
const labels = deployment.spec!.template.metadata!.labels!
const ports = Object.fromEntries((container.ports ?? []).map(({ containerPort, name }) => [name, containerPort]))

/** Type-checks the objects as literals: only there TypeScript reports unknown fields. */
const compile = (objects: ReadonlyArray<{ readonly apiVersion: string; readonly kind: string }>) => {
  const directory = temporaryDirectory()
  fs.symlinkSync(path.join(root, "node_modules"), path.join(directory, "node_modules"))
  const source = objects.map((object, index) => {
    const [version, group] = object.apiVersion.split("/").toReversed()
    const module = ["kubernetes-models", ...(group === undefined ? [] : [group]), version].join("/")
    return `import type { I${object.kind} as T${index} } from "${module}"
export const m${index}: T${index} = ${JSON.stringify(object)}`
  }).join("\n")
  fs.writeFileSync(path.join(directory, "manifests.ts"), source)
  const options = "--noEmit --ignoreConfig --strict --skipLibCheck --module nodenext --types".split(" ")
  const { stdout } = spawnSync(path.join(root, "node_modules/.bin/tsc"), [
    ...options,
    "",
    path.join(directory, "manifests.ts")
  ], { encoding: "utf8" })
  removeDirectory(directory)
  return stdout
}

describe("kubernetes.yaml", () => {
  it("contains each kind once, and two services, valid by the Kubernetes schemas", () => {
    assert.deepStrictEqual(manifests.map(({ kind }) => kind).toSorted(), [...kinds, "Service"])
    for (const kind of kinds) {
      const Model = models[kind] as new(data: object) => { readonly validate: () => void }
      for (const manifest of manifestsOf(kind)) {
        assert.doesNotThrow(() => new Model(manifest).validate(), undefined, kind)
      }
    }
    const broken = structuredClone(manifestOf("Deployment"))
    broken.spec.minReadySeconds = "soon"
    assert.throws(() => new Deployment(broken).validate(), /minReadySeconds/)
  })

  it("has no unknown fields", () => {
    assert.strictEqual(compile(manifests), "")
    const misspelt = structuredClone(manifestOf("Deployment"))
    misspelt.spec.template.spec.terminationGraceSeconds = 30
    assert.include(compile([misspelt]), "terminationGraceSeconds")
  })

  it("sets only known settings, with which a node starts once the secrets are filled in", () => {
    const given = { ...manifestOf("ConfigMap").data, ...manifestOf("Secret").stringData }
    for (const { name } of container.env ?? []) given[name] = "10.0.0.1"
    assertKnown(given)
    const required = ["DATABASE_URL", "JWT_JWKS_URL", "INTERNAL_TOKENS", "ENCRYPTION_KEY"]
    for (const name of required) assert.include(problemsOf(given), name)
    const filled = Object.fromEntries(
      Object.entries<string>(given).map(([name, value]) => [name, value === "" ? secrets[name] ?? "" : value])
    )
    assert.isTrue(Result.isSuccess(load(filled)), problemsOf(filled))
  })

  it("gets no variables of Services, which could be taken for settings", () => {
    const pods = [pod, new Job(manifestOf("Job")).spec!.template.spec!]
    for (const { enableServiceLinks } of pods) assert.isFalse(enableServiceLinks)
  })

  it("matches the ports, user and health routes of the image", () => {
    const exposed = instructionsOf().find(({ keyword }) => keyword === "EXPOSE")?.text.split(" ").map(Number)
    assert.deepStrictEqual(Object.values(ports), exposed)
    assert.strictEqual(ports["cluster"], Number(manifestOf("ConfigMap").data.CLUSTER_PORT))
    assert.strictEqual(ports["internal"], Number(manifestOf("ConfigMap").data.INTERNAL_PORT))
    const user = instructionsOf().find(({ keyword }) => keyword === "USER")?.text
    assert.strictEqual(user, `${pod.securityContext?.runAsUser}:${pod.securityContext?.runAsGroup}`)
    const health = fs.readFileSync(path.join(root, "src/http/handlers/Operations.ts"), "utf8")
    for (const probe of [container.startupProbe, container.livenessProbe, container.readinessProbe]) {
      assert.strictEqual(probe?.httpGet?.port, "http")
      assert.include(health, `"${probe?.httpGet?.path}"`)
    }
  })

  it("leaves 20 s for a stop after the preStop pause", () => {
    const pause = container.lifecycle?.preStop?.sleep?.seconds ?? 0
    assert.isAtLeast(pod.terminationGracePeriodSeconds ?? 0, pause + 20)
  })

  it("selects its own pods in all resources", () => {
    const selectors = [
      deployment.spec!.selector.matchLabels,
      ...manifestsOf("Service").map(({ spec }) => spec.selector),
      manifestOf("PodDisruptionBudget").spec.selector.matchLabels,
      manifestOf("NetworkPolicy").spec.podSelector.matchLabels
    ]
    for (const selector of selectors) assert.deepStrictEqual(selector, labels)
    assert.strictEqual(manifestOf("HorizontalPodAutoscaler").spec.scaleTargetRef.name, deployment.metadata?.name)
  })

  it("closes the cluster port to all but nodes, and the internal port to all without a label", () => {
    const { egress, ingress, policyTypes } = manifestOf("NetworkPolicy").spec
    assert.deepStrictEqual(policyTypes, ["Ingress", "Egress"])
    assert.deepStrictEqual(ingress, [
      { ports: [{ port: "http" }] },
      {
        ports: [{ port: "internal" }],
        from: [{
          namespaceSelector: {},
          podSelector: { matchLabels: { "async-task-service-access": "internal" } }
        }]
      },
      { ports: [{ port: "cluster" }], from: [{ podSelector: { matchLabels: labels } }] }
    ])
    assert.deepInclude(egress, { ports: [{ port: "cluster" }], to: [{ podSelector: { matchLabels: labels } }] })
    assert.deepInclude(egress, { ports: [{ port: 5432 }] })
    const target = new URL(manifestOf("ConfigMap").data.PUBLIC_URL).hostname
    const reported = manifestsOf("Service").find(({ metadata }) => metadata.name === target)
    assert.strictEqual(reported.spec.ports[0].targetPort, "internal")
  })

  it("scales on a metric of the service", () => {
    const { metric } = manifestOf("HorizontalPodAutoscaler").spec.metrics[0].pods
    assert.include(definitions.map(({ name }) => prometheusName(name)), metric.name)
  })

  it("migrates with the image, settings and user of the nodes", () => {
    const job = new Job(manifestOf("Job")).spec!.template.spec!
    const [migrate] = job.containers
    assert.strictEqual(migrate?.image, container.image)
    assert.deepStrictEqual(migrate?.args, ["migrate"])
    assert.deepStrictEqual(migrate?.envFrom, container.envFrom)
    assert.deepStrictEqual(migrate?.securityContext, container.securityContext)
    assert.deepStrictEqual(job.securityContext, pod.securityContext)
    assert.notDeepEqual(manifestOf("Job").spec.template.metadata.labels, labels)
  })
})

const texts = (text: string) => parseAllDocuments(text).map((document) => document.toJSON())
const find = (all: ReadonlyArray<any>, kind: string) => all.find((manifest) => manifest.kind === kind)
const page = fs.readFileSync(path.join(folder, "README.md"), "utf8")

/** The blocks of the page's section about Kubernetes. */
const blocks = [...page.split("\n## Kubernetes\n")[1]!.split("\n## ")[0]!.matchAll(/```yaml\n(.*?)```/gs)].map((
  [, text]
) => text!)

const values = parse(fs.readFileSync(path.join(chart, "values.yaml"), "utf8"))
const templates = fs.globSync("templates/*", { cwd: chart })
  .map((file) => fs.readFileSync(path.join(chart, file), "utf8")).join("\n")

describe("the chart", () => {
  it("has the version of the package, and uses each of its values", () => {
    const { appVersion, version } = parse(fs.readFileSync(path.join(chart, "Chart.yaml"), "utf8"))
    const { version: ours } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))
    assert.deepStrictEqual([version, appVersion], [ours, ours])
    const used = new Set([...templates.matchAll(/\.Values\.([\w.]+)/g)].map(([, name]) => name))
    for (const [name, value] of Object.entries<any>(values)) {
      if (used.has(name)) continue
      for (const part of Object.keys(value)) assert.isTrue(used.has(`${name}.${part}`), `${name}.${part}`)
    }
  })
})

describe.runIf(hasTools)("Helm", () => {
  it("finds no fault in the chart, and in values a misspelt name and a wrong type", () => {
    assert.strictEqual(runHelm(["lint", "--strict", chart]).status, 0)
    assert.include(runHelm(["template", "t", chart], "imgae: { tag: 1.0.0 }").stderr, "'imgae' not allowed")
    assert.include(runHelm(["template", "t", chart], "settings: { CLUSTER: on }").stderr, "got boolean")
  })

  it("renders kubernetes.yaml: if this fails, run node test/kit/kubernetesTools.ts", () => {
    assert.strictEqual(fs.readFileSync(path.join(folder, "kubernetes.yaml"), "utf8"), plainManifests())
  })

  it("renders what the page shows, with names of the release", () => {
    const all = texts(render("tasks", blocks[0]))
    assert.strictEqual(compile(all), "")
    assert.isUndefined(find(all, "Secret"))
    const { data } = find(all, "ConfigMap")
    assertKnown(data)
    assert.include(data, {
      CORE_URL: "http://agents",
      CORE_RUNS: "64",
      CLUSTER: "on",
      PUBLIC_URL: "http://tasks-internal"
    })
    const { metadata, spec } = find(all, "Deployment")
    const [container] = spec.template.spec.containers
    assert.strictEqual(metadata.name, "tasks")
    assert.match(container.image, /^registry\.example\.com\/async-task-service@sha256:/)
    assert.deepStrictEqual(container.envFrom[1], { secretRef: { name: "async-task-service" } })
    assert.strictEqual(find(all, "HorizontalPodAutoscaler").spec.maxReplicas, 4)
    const mount = container.volumeMounts[0].mountPath
    assert.isTrue(data.FILES_DIR.startsWith(mount))
    assert.isNotEmpty(spec.template.spec.volumes)
  })

  it("tells the core the port of the internal service", () => {
    const port = (text: string) => find(texts(render("tasks", text)), "ConfigMap").data.PUBLIC_URL
    assert.strictEqual(port("internalService: { port: 8080 }"), "http://tasks-internal:8080")
    assert.strictEqual(port("settings: { PUBLIC_URL: https://tasks.example }"), "https://tasks.example")
  })

  it("replaces the nodes when a setting or a secret changes, and not otherwise", () => {
    const sum = (text?: string) => find(texts(render("tasks", text)), "Deployment").spec.template.metadata.annotations
    assert.deepStrictEqual(sum(), sum("replicas: 4"))
    assert.notDeepEqual(sum(), sum("settings: { CORE_RUNS: 4 }"))
    assert.notDeepEqual(sum(), sum("secrets: { CORE_TOKEN: a }"))
  })

  it("keeps a large number, quotes and line breaks of settings and secrets as they are", () => {
    const text = "a \"b\" <c>\n- d: 'e'"
    const given = { settings: { WEBHOOK_ENDPOINT_BACKLOG: 10_737_418_240 }, secrets: { JWT_PUBLIC_KEY: text } }
    const all = texts(render("tasks", JSON.stringify(given)))
    assert.strictEqual(find(all, "ConfigMap").data.WEBHOOK_ENDPOINT_BACKLOG, "10737418240")
    assert.strictEqual(find(all, "Secret").stringData.JWT_PUBLIC_KEY, text)
  })

  it("renders valid manifests when everything that can be switched is switched", () => {
    const all = texts(render(
      "tasks",
      JSON.stringify({
        autoscaling: { enabled: false },
        podDisruptionBudget: { enabled: false },
        networkPolicy: { enabled: false },
        migrate: { enabled: false },
        replicas: 2,
        spread: [],
        imagePullSecrets: [{ name: "pull" }],
        nodeSelector: { disk: "fast" },
        tolerations: [{ key: "dedicated", operator: "Exists" }],
        affinity: { nodeAffinity: {} },
        priorityClassName: "high",
        serviceAccountName: "tasks",
        podLabels: { team: "agents" },
        podAnnotations: { "example.com/log": "json" },
        env: [{ name: "NO_PROXY", value: "core" }],
        service: { type: "LoadBalancer", annotations: { "example.com/internal": "true" } }
      })
    ))
    assert.strictEqual(compile(all), "")
    assert.deepStrictEqual(all.map(({ kind }) => kind).toSorted(), [
      "ConfigMap",
      "Deployment",
      "Secret",
      "Service",
      "Service"
    ])
    assert.strictEqual(find(all, "Deployment").spec.replicas, 2)
    const more = texts(render("tasks", JSON.stringify({ networkPolicy: { egress: [{ ports: [{ port: 6432 }] }] } })))
    assert.strictEqual(compile(more), "")
    assert.deepInclude(find(more, "NetworkPolicy").spec.egress, { ports: [{ port: 6432 }] })
  })
})

describe.runIf(hasTools)("kubectl kustomize", () => {
  it("renders the overlay of the page", () => {
    const directory = temporaryDirectory()
    fs.cpSync(folder, path.join(directory, "async-task-service/src/runtime/deployment"), { recursive: true })
    fs.mkdirSync(path.join(directory, "mine"))
    fs.writeFileSync(path.join(directory, "mine/kustomization.yaml"), blocks[1]!)
    fs.writeFileSync(path.join(directory, "mine/secrets.env"), "CORE_TOKEN=a\n")
    const all = texts(kustomize(path.join(directory, "mine")))
    removeDirectory(directory)
    assert.strictEqual(compile(all), "")
    assert.lengthOf(all, manifests.length)
    const { data, metadata } = find(all, "ConfigMap")
    assertKnown(data)
    assert.include(data, { CORE_URL: "http://agents", CORE_RUNS: "64", CLUSTER: "on" })
    const [container] = find(all, "Deployment").spec.template.spec.containers
    assert.match(container.image, /^registry\.example\.com\/async-task-service:/)
    assert.strictEqual(container.envFrom[0].configMapRef.name, metadata.name)
    assert.strictEqual(find(all, "HorizontalPodAutoscaler").spec.maxReplicas, 4)
  })
})
