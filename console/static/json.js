// JSON with line breaks and indentation, otherwise as it is stored: numbers, escapes and keys that come twice stay.

const DEEPEST = 100; // beyond it nothing is indented further: else the white space would outgrow the data
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g;

// The text laid out, null if it is no JSON object or array.
export function pretty(text) {
  try {
    const value = JSON.parse(text); // only to see whether it is JSON: the value is not used
    if (typeof value !== "object" || value === null) return null;
  } catch {
    return null;
  }
  const parts = [];
  let depth = 0;
  let before = "";
  const line = () => parts.push("\n", "  ".repeat(Math.min(depth, DEEPEST)));
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    const isEmpty = closes && (before === "{" || before === "[");
    if ((closes && !isEmpty) || (!closes && (before === "{" || before === "[" || before === ","))) line();
    parts.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    before = token;
  }
  return parts.join("");
}
