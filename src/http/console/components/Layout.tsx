/** The layout of every screen: navigation, account menu, messages and the dialogs that any screen may need. */
import type { ComponentChildren } from "preact"
import { useEffect, useRef } from "preact/hooks"
import { useAction } from "../actions.ts"
import { active, interrupted } from "../active.ts"
import { failingSince } from "../api.ts"
import { clockTime, moment, now, relative } from "../clock.ts"
import { config } from "../config.ts"
import type { NavigationItem } from "../ConsoleExtension.ts"
import { ofUsers, shortcuts } from "../keys.ts"
import { shown, spoken } from "../messages.ts"
import * as notifications from "../notifications.ts"
import { logOut as operatorLogOut, operator } from "../operator.ts"
import { isHelpOpen, isPaletteOpen, screens } from "../palette.ts"
import { keys, taskFilter, theme, zone } from "../preferences.ts"
import { href, isOps, path, reveal } from "../Router.ts"
import { served } from "../served.ts"
import { logOut, renewal, session } from "../session.ts"
import { Segments, type SegmentsProps } from "./Basics.tsx"
import { Dialog } from "./Dialog.tsx"
import { Icon } from "./Icon.tsx"
import { Palette } from "./Palette.tsx"
import { Problem } from "./Screen.tsx"
import { Renewal } from "./TokenForm.tsx"

/** The current screen is in view also where the links are one line that scrolls. */
const Navigation = ({ items }: { readonly items: ReadonlyArray<NavigationItem> }) => {
  const ref = useRef<HTMLUListElement>(null)
  useEffect(() => reveal(ref.current?.querySelector("[aria-current]")?.parentElement), [path.value])
  return (
    <ul ref={ref}>
      {items.map(({ count = 0, icon, isApart = false, label, query = "", to }) => (
        <li key={to} class={isApart ? "apart" : undefined}>
          <a href={href(to + query)} aria-current={path.value === to ? "page" : undefined}>
            <Icon name={icon} />
            <span>{label}</span>
            {count === 0 ? null : (
              <span class="badge">
                {count}
                <span class="visually-hidden">{" waiting"}</span>
              </span>
            )}
          </a>
        </li>
      ))}
    </ul>
  )
}

const Choice = ({ value, ...props }: Pick<SegmentsProps<string>, "label" | "options"> & {
  readonly value: { value: string }
}) => (
  <Segments {...props} name={props.label} style="choice" value={value.value} onChoose={(name) => value.value = name} />
)

/** Milliseconds since the epoch, as in `in 3 h, 10:31:00`. */
const ends = (at: number) => `${relative(at, now.value)}, ${moment(at, zone.value)}`

/** The menu closes first, so that the dialog returns the focus to the account button. */
const showHelp = ({ currentTarget }: { readonly currentTarget: Element }) => {
  currentTarget.closest<HTMLElement>("[popover]")?.hidePopover()
  isHelpOpen.value = true
}

interface AccountProps {
  readonly name: string
  /** What ends at `expiresAt`. */
  readonly what: string
  readonly expiresAt: number
  readonly onLogOut: () => unknown
  /** The page with the documentation of the calls. */
  readonly docs: string
}

const Account = ({ docs, expiresAt, name, onLogOut, what }: AccountProps) => {
  const { error, isBusy, run } = useAction(async () => await onLogOut())
  return (
    <div class="account">
      <button type="button" class="account-button" popovertarget="account-menu" aria-label={`Account of ${name}`}>
        <Icon name="user" />
        <span class="account-name">{name}</span>
      </button>
      <div id="account-menu" popover="auto" class="account-menu" role="group" aria-label="Account">
        <p class="account-who">
          <strong>
            <bdi>{name}</bdi>
          </strong>
          <span>The {what} ends {ends(expiresAt)}</span>
        </p>
        <Choice label="Theme" value={theme} options={[["auto", "System"], ["light", "Light"], ["dark", "Dark"]]} />
        <Choice label="Times" value={zone} options={[["local", "Local"], ["utc", "UTC"]]} />
        <Choice label="Shortcuts" value={keys} options={[["on", "On"], ["off", "Off"]]} />
        {isOps.value || !notifications.isSupported ?
          null :
          <Choice label="Notify" value={notifications.choice} options={[["on", "On"], ["off", "Off"]]} />}
        <div class="account-actions">
          <button type="button" class="button" onClick={showHelp}>
            Keyboard shortcuts
          </button>
          <button type="button" class="button" aria-disabled={isBusy} onClick={() => run()}>Log out</button>
        </div>
        <Problem error={error} />
        <p class="hint">
          Version {config.value.version} · <a href={docs}>API documentation</a>
        </p>
      </div>
    </div>
  )
}

const Shortcuts = () => (
  <Dialog title="Keyboard shortcuts" onClose={() => isHelpOpen.value = false}>
    <dl class="shortcuts">
      {shortcuts.filter(([key]) => !isOps.value || !ofUsers.includes(key)).map(([key, action]) => (
        <div key={key}>
          <dt>
            <kbd>{key}</kbd>
          </dt>
          <dd>{action}</dd>
        </div>
      ))}
    </dl>
    {keys.value === "on" ? null : <p class="hint">They are switched off in the account menu.</p>}
  </Dialog>
)

/** Milliseconds: a shorter outage is not worth a banner. */
const outage = 5000

const Offline = () => {
  const since = failingSince.value
  return since === undefined || now.value - since < outage ? null : (
    <p class="banner" role="status">
      <Icon name="warning" />
      The service has not answered since {clockTime(since, zone.value)}. Trying again.
    </p>
  )
}

/** Messages are in the document before they have a text: screen readers need that. */
const Messages = () => (
  <>
    <div class="visually-hidden" role="status" aria-live="polite">{spoken}</div>
    {shown.value === undefined ? null : <div class="toast" aria-hidden="true">{shown}</div>}
  </>
)

const Frame = ({ account, children, items }: {
  readonly items: ReadonlyArray<NavigationItem>
  readonly account: AccountProps
  readonly children: ComponentChildren
}) => {
  useEffect(() => {
    screens.value = items.map(({ label, query = "", to }) => ({ label, to: to + query }))
  }, [items.length, taskFilter.value])
  return (
    <div class="layout">
      <a class="skip" href="#main">Skip to the content</a>
      <header class="side">
        <a class="brand" href={href(items[0]?.to ?? "")}>
          <Icon name="completed" />
          <span>Task Service</span>
        </a>
        <button type="button" class="go-to" aria-label="Go to…" onClick={() => isPaletteOpen.value = true}>
          <Icon name="search" />
          <span>Go to…</span>
          <kbd>Ctrl K</kbd>
        </button>
        <nav aria-label="Main">
          <Navigation items={items} />
        </nav>
        <Account {...account} />
      </header>
      <div class="content">
        <Offline />
        {children}
      </div>
      <Messages />
      {isHelpOpen.value ? <Shortcuts /> : null}
      {isPaletteOpen.value ? <Palette /> : null}
    </div>
  )
}

export const Layout = ({ children }: { readonly children: ComponentChildren }) => {
  const current = session.value
  useEffect(() => active.start(), [])
  useEffect(() => notifications.start(), [])
  if (current === undefined) return null
  const account = { name: current.sub, what: "token", expiresAt: current.expiresAt, onLogOut: logOut, docs: "/docs" }
  return (
    <Frame
      account={account}
      items={[
        { to: "/tasks", query: taskFilter.value, label: "Tasks", icon: "tasks" },
        { to: "/inbox", label: "Inbox", icon: "inbox", count: interrupted().length },
        ...served().flatMap(({ items = [] }) => items),
        { to: "/new", label: "New task", icon: "add" }
      ]}
    >
      {children}
      {renewal.value === undefined ? null : <Renewal reason={renewal.value} />}
    </Frame>
  )
}

const operatorItems: ReadonlyArray<NavigationItem> = [
  { to: "/ops", label: "Overview", icon: "overview" },
  { to: "/ops/tasks", label: "Tasks", icon: "tasks" },
  { to: "/ops/errors", label: "Errors", icon: "failed" },
  { to: "/ops/stuck", label: "Stuck", icon: "interrupted" },
  { to: "/ops/queue", label: "Queue", icon: "inbox" },
  { to: "/ops/webhooks", label: "Webhooks", icon: "link", isApart: true }
]

const lastOperatorItems: ReadonlyArray<NavigationItem> = [
  { to: "/ops/cluster", label: "Cluster", icon: "cluster", isApart: true },
  { to: "/ops/revocations", label: "Revocations", icon: "canceled" },
  { to: "/ops/bulk", label: "Bulk", icon: "layers" },
  { to: "/ops/audit", label: "Audit", icon: "file" }
]

export const OperatorLayout = ({ children }: { readonly children: ComponentChildren }) => {
  const current = operator.value
  if (current === undefined || current === null) return null
  const name = current.role === "full" ? "Operator" : "Operator, read only"
  const account = { name, what: "session", expiresAt: Date.parse(current.expires_at), docs: "/internal/docs" }
  const added = served().flatMap((extension) => extension.operatorItems ?? [])
  const items = [...operatorItems, ...added, ...lastOperatorItems]
  return <Frame account={{ ...account, onLogOut: operatorLogOut }} items={items}>{children}</Frame>
}
