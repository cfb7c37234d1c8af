/** Sanitizes file names before they are forwarded: removes folders (path traversal) and control characters. */

// oxlint-disable-next-line eslint/no-control-regex -- the expression matches control characters
const controls = /[\0-\u001f\u007f]/g

/**
 * The last segment of a path. RFC 7578, 4.2 forbids receivers to use folders. Both `/` and `\` separate, on any system.
 */
export const baseName = (name: string): string => name.replaceAll(controls, "").replace(/^.*[/\\]/s, "")
