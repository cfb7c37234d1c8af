/** Flags and arguments of the commands, each with its description. */
import { Argument, Flag } from "effect/cli"

export const uuid = Argument.String("uuid").pipe(Argument.withDescription("Task id"))

export const text = (name: string, description: string) => Flag.String(name).pipe(Flag.withDescription(description))

export const optionalText = (name: string, description: string) => Flag.optional(text(name, description))

export const optionalInt = (name: string, description: string) =>
  Flag.Int(name).pipe(Flag.withDescription(description), Flag.optional)

export const int = (name: string, description: string, absent: number) =>
  Flag.Int(name).pipe(Flag.withDescription(`${description} (default: ${absent})`), Flag.withDefault(absent))

/** False unless it is given. */
export const boolean = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))
