/** `--help` of the program and of each command, those of extensions included. */
import { commands } from "../../src/runtime/cli/Program.ts"
import { modules } from "../../src/runtime/extensions.ts"
import { runHere } from "../kit/runToEnd.ts"

interface Named {
  readonly name: string
  readonly subcommands: ReadonlyArray<{ readonly commands: ReadonlyArray<Named> }>
}

/** A command and those below it, as the words that select each. */
const below = (command: Named, before: ReadonlyArray<string> = []): ReadonlyArray<ReadonlyArray<string>> => {
  const words = [...before, command.name]
  return [words, ...command.subcommands.flatMap((group) => group.commands).flatMap((sub) => below(sub, words))]
}

export const help = async () => {
  const added = await Promise.all(modules.flatMap((module) => module.commands?.() ?? []))
  const all: ReadonlyArray<Named> = [...commands, ...added.flatMap((module) => module.commands)]
  const parts: Array<string> = []
  for (const words of [[], ...all.flatMap((command) => below(command))]) {
    const { code, err, out } = await runHere([...words, "--help", "--no-color"])
    if (code !== 0) throw new Error(`--help of ${words.join(" ")} exits with ${code}: ${err}`)
    parts.push(`$ ${["async-task-service", ...words, "--help"].join(" ")}\n${out.replaceAll(/[ \t]+$/gm, "")}\n`)
  }
  return { "help.txt": parts.join("\n") }
}
