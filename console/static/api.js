// Requests to the console's own addresses. A 401 means that the login is over.

export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const onLogout = new Set();
export const whenLoggedOut = (action) => onLogout.add(action);

async function ask(name, options) {
  let answer;
  try {
    answer = await fetch(`api/v1/${name}`, {
      credentials: "same-origin",
      ...options,
      headers: { "X-Zketcd-Console": "1", ...options.headers },
    });
  } catch {
    throw new Failed(0, "This proxy does not answer. It may have stopped.");
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  if (answer.status === 401 && name !== "login") onLogout.forEach((action) => action());
  throw new Failed(answer.status, body.error ?? `The proxy answered ${answer.status}.`);
}

const query = (values) => new URLSearchParams(
  Object.entries(values ?? {}).filter(([, value]) => value !== null && value !== undefined)).toString();

export const get = (name, values) => ask(values ? `${name}?${query(values)}` : name, {});
export const post = (name, values) => ask(name, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(values ?? {}),
});

export const dataAddress = (path) => `api/v1/data?${query({ path })}`;

export const exportAddress = (path) => `api/v1/export?${query({ path })}`;

// {content, version} of all data.
export async function wholeData(path) {
  const answer = await fetch(dataAddress(path), { credentials: "same-origin" });
  if (!answer.ok) throw new Failed(answer.status, "The data could not be read.");
  return { content: new Uint8Array(await answer.arrayBuffer()), version: Number(answer.headers.get("X-Zketcd-Version")) };
}
