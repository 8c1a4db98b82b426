import { encode } from "uqr";

/** A text as a QR code. */
export function QR({ text, label, size = 200 }: { text: string; label: string; size?: number }) {
  const code = encode(text, { border: 2 });
  const path = code.data.map((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : "")).join("")).join("");
  return (
    <svg role="img" aria-label={label} width={size} height={size} viewBox={`0 0 ${code.size} ${code.size}`} shapeRendering="crispEdges">
      <rect width={code.size} height={code.size} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  );
}
