/** Per cent, such as 12.5, in millionths; what is no such number is refused by the server. */
export function off(percent: string): number {
  const m = /^(\d{1,3})(?:\.(\d{1,4}))?$/.exec(percent.trim());
  return m ? Number(m[1]) * 10_000 + Number((m[2] ?? "").padEnd(4, "0")) : -1;
}
