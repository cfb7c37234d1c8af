/** Every address of the operator interface that reads without an id, below `/internal/operator`. */
export const operatorPaths = [
  "/overview",
  "/tasks",
  "/tasks?status=interrupted",
  "/errors",
  "/durations",
  "/stuck",
  "/clocks",
  "/history",
  "/origins",
  "/deliveries",
  "/cluster",
  "/queue",
  "/revocations"
]
