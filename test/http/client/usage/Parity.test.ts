/** What the clients of usage have. */
import { describeParity } from "../../../kit/parity.ts"

const from = "2026-11-01T00:00:00Z"
const to = "2026-11-02T00:00:00Z"

describeParity(["usage"], {
  getUsage: {
    promise: ({ usage }) => usage.get({ from, to, step: "day", group_by: ["assistant", "model"], assistant_id: 1 }),
    python:
      `client.usage.get(from_="${from}", to="${to}", step="day", group_by=["assistant", "model"], assistant_id=1)`,
    commands: ["usage", "--from", from, "--to", to, "--step", "day", "--by", "assistant", "--assistant", "1"],
    rpc: "Tasks.usage"
  }
}, {})
