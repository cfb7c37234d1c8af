/**
 * A bounded number of permits with a limit per holder. Waiting holders are served round-robin, so that one holder's queue
 * does not delay another's. Take and release have constant cost.
 */
import { Effect, type Scope } from "effect"

interface Waiter {
  readonly count: number
  grant: () => void
  isGranted: boolean
}

interface Holder {
  held: number
  readonly waiting: Set<Waiter>
}

export interface FairPermits {
  /** Waits for permits and holds them until the scope closes: `count`, but at most `perHolder`. */
  readonly take: (name: string, count: number) => Effect.Effect<void, never, Scope.Scope>
  /** Whether a holder that has fewer than `perHolder` waits. */
  readonly isContended: () => boolean
  /** Permits that are held. */
  readonly inUse: () => number
  /** How many wait. */
  readonly waiting: () => number
}

export interface Bounds {
  readonly total: number
  readonly perHolder: number
}

export const make = ({ perHolder, total }: Bounds): FairPermits => {
  let free = total
  let waiting = 0
  const holders = new Map<string, Holder>()
  /** Holders whose first waiter is within `perHolder`, in the order in which they are served. */
  const ready = new Set<Holder>()

  const firstOf = ({ waiting }: Holder): Waiter | undefined => waiting.values().next().value

  const classify = (holder: Holder) => {
    const first = firstOf(holder)
    if (first !== undefined && holder.held + first.count <= perHolder) ready.add(holder)
    else ready.delete(holder)
  }

  const grantAll = () => {
    for (const holder of ready) {
      const first = firstOf(holder)
      // No overtaking, which would starve large requests while there are small ones.
      if (first === undefined || first.count > free) return
      holder.waiting.delete(first)
      waiting--
      // `classify` appends the holder again, behind the others.
      ready.delete(holder)
      holder.held += first.count
      free -= first.count
      classify(holder)
      first.isGranted = true
      first.grant()
    }
  }

  const enter = (name: string, waiter: Waiter) => {
    const holder = holders.get(name) ?? { held: 0, waiting: new Set() }
    holders.set(name, holder)
    holder.waiting.add(waiter)
    waiting++
    classify(holder)
    grantAll()
  }

  const release = (name: string, waiter: Waiter) => {
    const holder = holders.get(name)
    if (holder === undefined) return
    if (waiter.isGranted) {
      holder.held -= waiter.count
      free += waiter.count
    } else if (holder.waiting.delete(waiter)) waiting--
    classify(holder)
    if (holder.held === 0 && holder.waiting.size === 0) holders.delete(name)
    grantAll()
  }

  return {
    isContended: () => ready.size > 0,
    inUse: () => total - free,
    waiting: () => waiting,
    take: (name, count) =>
      Effect.suspend(() => {
        const waiter: Waiter = { count: Math.min(count, perHolder), isGranted: false, grant: () => {} }
        return Effect.andThen(
          Effect.addFinalizer(() => Effect.sync(() => release(name, waiter))),
          Effect.callback<void>((resume) => {
            waiter.grant = () => resume(Effect.void)
            enter(name, waiter)
            // Yields, because permits that are released immediately would deepen the granting stack.
            waiter.grant = () => resume(Effect.yieldNow)
          })
        )
      })
  }
}
