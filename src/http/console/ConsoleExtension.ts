/** The part of an extension in the console. It is shown while the service has the extension. */
import type { FunctionComponent } from "preact"
import type { Task } from "../client/promise/Types.ts"
import type { IconName } from "./components/Icon.tsx"
import type { Screens } from "./components/Parts.tsx"

export interface NavigationItem {
  readonly to: string
  readonly query?: string
  readonly label: string
  readonly icon: IconName
  readonly count?: number
  /** Begins a group of links. */
  readonly isApart?: boolean
}

export interface ConsoleExtension {
  /** Links for users: `[{ to: "/usage", label: "Usage", icon: "usage" }]`. */
  readonly items?: ReadonlyArray<NavigationItem>
  /** Links for operators, whose paths begin with `/ops/`. */
  readonly operatorItems?: ReadonlyArray<NavigationItem>
  /** The beginnings of the paths of its screens, and the screens, which are loaded when one of them is first shown. */
  readonly paths: RegExp
  readonly load: () => Promise<{ readonly screens: Screens }>
  /** A value of `include`, and what the screen of a task shows of it. */
  readonly ofTask?: { readonly include: string; readonly Facts: FunctionComponent<{ readonly task: Task }> }
}
