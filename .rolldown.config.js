/**
 * Bundles the command line and its worker threads with all libraries, so that the service starts fast and needs no
 * node_modules. The directory has the depth of `src/runtime`, from which `Version.ts` finds package.json; threads are next to
 * the chunks that start them.
 */
export default {
  input: {
    Cli: "src/runtime/cli/Cli.ts",
    BodyWorkerThread: "src/runtime/node/BodyWorkerThread.ts",
    watchdogThread: "src/runtime/node/watchdogThread.ts",
    extractText: "src/runtime/builtin/backend/extractText.ts"
  },
  platform: "node",
  // Bundles the console in a checkout; a package has the bundled files.
  external: ["rolldown"],
  // rolldown loses the names that a dynamically imported module re-exports from CommonJS.
  resolve: { alias: { "./Undici.js": "undici", "@effect/platform-node/Undici": "undici" } },
  output: { dir: "dist/bin", comments: { jsdoc: false } }
}
