export const pause = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))
export const upTo = (millis: number) => millis === 0 ? Promise.resolve() : pause(Math.random() * millis)
