export const pause = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))
