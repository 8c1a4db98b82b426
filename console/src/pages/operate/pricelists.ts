/** Per cent, such as 12.5, in millionths; what is no such number is refused by the server. */
export function off(percent: string): number {
  const m = /^(\d{1,3})(?:\.(\d{1,4}))?$/.exec(percent.trim());
  return m ? Number(m[1]) * 10_000 + Number((m[2] ?? "").padEnd(4, "0")) : -1;
}

/** Per cent, such as 12.5, in hundredths of a per cent; -1 for what is no such number up to 100. */
export function basisPoints(percent: string): number {
  const m = /^(\d{1,3})(?:\.(\d{1,2}))?$/.exec(percent.trim());
  const points = m ? Number(m[1]) * 100 + Number((m[2] ?? "").padEnd(2, "0")) : -1;
  return points <= 10_000 ? points : -1;
}
