/** Create requests of many users, over 64 connections. */
import autocannon from "autocannon"
import { mint } from "../kit/Service.ts"
import { cpuOfProcess } from "./processes.ts"

const tokens = await Promise.all(Array.from({ length: 1000 }, (_, n) => mint(`user-${n}`)))
const body = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] })
const requests = tokens.map((token) => ({
  method: "POST" as const,
  path: "/api/tasks",
  headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
  body
}))

export const measureCreates = async (url: string, pid: number, seconds: number) => {
  const before = cpuOfProcess(pid)
  const result = await autocannon({ url, connections: 64, duration: seconds, requests })
  if (result.non2xx > 0 || result.errors > 0) throw new Error(`${result.non2xx} refused, ${result.errors} errors`)
  const cpu = (cpuOfProcess(pid) - before) / result["2xx"] * 1000
  const rate = result.requests.average
  return { rate, text: `${rate.toFixed(0)}/s, p99 ${result.latency.p99} ms, ${cpu.toFixed(0)} µs CPU each` }
}
