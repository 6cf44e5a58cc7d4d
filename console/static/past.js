export function pastCard() {
  return null;
}
