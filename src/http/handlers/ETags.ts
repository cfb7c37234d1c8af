/** Versions in headers of requests. */

/** True if `If-Match` or `If-None-Match` names a version: weak comparison (RFC 9110). */
export const names = (header: string, etag: string): boolean =>
  header.trim() === "*" || header.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag)
