// The differences of two texts, line by line. No DOM here.

const MOST = 1500; // lines of each that are compared

// [" " | "-" | "+", line] in order; null if the texts are too long.
export function differences(before, after) {
  const [one, two] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < one.length && start < two.length && one[start] === two[start]) start += 1;
  let end = 0;
  while (end < one.length - start && end < two.length - start && one.at(-1 - end) === two.at(-1 - end)) end += 1;
  const [first, second] = [one.slice(start, one.length - end), two.slice(start, two.length - end)];
  if (first.length > MOST || second.length > MOST) return null;
  // lengths[i][j]: of the longest common part of the rests from i and j on
  const lengths = Array.from({ length: first.length + 1 }, () => new Uint16Array(second.length + 1));
  for (let i = first.length - 1; i >= 0; i -= 1) {
    for (let j = second.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = first[i] === second[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const found = one.slice(0, start).map((line) => [" ", line]);
  let [i, j] = [0, 0];
  while (i < first.length || j < second.length) {
    if (i < first.length && j < second.length && first[i] === second[j]) {
      found.push([" ", first[i]]);
      i += 1;
      j += 1;
    } else if (j >= second.length || (i < first.length && lengths[i + 1][j] >= lengths[i][j + 1])) {
      found.push(["-", first[i]]);
      i += 1;
    } else {
      found.push(["+", second[j]]);
      j += 1;
    }
  }
  return found.concat(one.slice(one.length - end).map((line) => [" ", line]));
}

// Without lines that are far from any difference.
export function near(found, context = 3) {
  const keep = new Set();
  found.forEach(([kind], place) => {
    if (kind !== " ") for (let at = place - context; at <= place + context; at += 1) keep.add(at);
  });
  const shown = [];
  found.forEach((line, place) => {
    if (keep.has(place)) shown.push(line);
    else if (shown.at(-1)?.[0] !== "…") shown.push(["…", ""]);
  });
  return shown;
}
