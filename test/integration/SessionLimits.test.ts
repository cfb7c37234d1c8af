/** The time-outs of the database sessions that answer requests, as Postgres has them. */
import { assert, it, onTestFinished } from "vitest"
import { complete } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const limits = {
  statement_timeout: "10s",
  lock_timeout: "5s",
  idle_in_transaction_session_timeout: "15s"
}

it("sessions that create and end tasks end a statement, a wait for a lock and an idle transaction", async () => {
  const { database, runOf, service } = await use(startSystem(), onTestFinished)
  const names = Object.keys(limits)
  await database.query(`CREATE TABLE sessions (changed text, ${names.map((name) => `${name} text`).join(", ")})`)
  await database.query(`CREATE FUNCTION note_session() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO sessions VALUES (TG_OP, ${names.map((name) => `current_setting('${name}')`).join(", ")});
      RETURN NULL;
    END $$`)
  await database.query(`CREATE TRIGGER note_session AFTER INSERT OR UPDATE ON tasks
    FOR EACH STATEMENT EXECUTE FUNCTION note_session()`)
  const token = await mint("bounded")
  const { uuid } = (await service.create(token, "x")).body
  await complete(await runOf(uuid))
  const found = await database.query("SELECT DISTINCT * FROM sessions ORDER BY changed")
  assert.deepStrictEqual(found, [{ changed: "INSERT", ...limits }, { changed: "UPDATE", ...limits }])
})
