/**
 * Preloaded into a process that acts as another machine, where the cluster's port is free although a node here uses it.
 */
import { type ListenOptions, Server } from "node:net"

const port = Number(process.env["CLUSTER_PORT"])
const { listen } = Server.prototype

Server.prototype.listen = function(this: Server, options: ListenOptions, listener?: () => void) {
  return listen.call(this, options.port === port ? { ...options, port: 0 } : options, listener)
} as Server["listen"]
