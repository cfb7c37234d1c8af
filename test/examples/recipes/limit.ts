/** One customer gets another limit than the others. For operators: the token is an internal one, and the audit has the change. */
const url = process.env["TASK_SERVICE_URL"] ?? "http://127.0.0.1:3000"
const user = process.env["TASK_SERVICE_USER"] ?? "developer" // the `sub` of the customer's tokens

const call = async (method: string, path: string, body?: object) => {
  const response = await fetch(`${url}/internal/operator${path}`, {
    method,
    headers: { authorization: `Bearer ${process.env["INTERNAL_TOKEN"]}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return await response.json() as { readonly slots: { readonly used: number; readonly maximum: number } }
}

const path = `/users/${encodeURIComponent(user)}`
await call("PUT", `${path}/limits`, { max_active_tasks: 200 }) // from the next create on, on every node
const { slots } = await call("GET", path)
console.log("the customer may have", slots.maximum, "active tasks")
await call("PUT", `${path}/limits`, { max_active_tasks: null }) // MAX_ACTIVE_TASKS again
console.log("all others have", (await call("GET", path)).slots.maximum)
