"""Scripts that tests of the dashboard run in its pages."""

# As if a link had been followed: loading everything again for each page takes longer.
GOES = "(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }"
STOPS_WITH_A_REASON = """([name, reason]) => fetch(`/api/v1/sessions/${name}?reason=${encodeURIComponent(reason)}`, {
  method: 'DELETE', headers: {'X-Sokovan-Proof': localStorage['sokovan-proof']},
}).then((answer) => answer.status)"""
READS = """(path) => fetch(`/api/v1/${path}`, {
  headers: {'X-Sokovan-Proof': localStorage['sokovan-proof']},
}).then((answer) => answer.json())"""
# The worker of a browser whose list was cut, and has no row left.
HOLDS_NOTHING = """
globalThis.SharedWorker = class {
  constructor() {
    const port = { onmessage: null, postMessage: (message) => message.kind === "open" && setTimeout(answer) };
    const answer = () => port.onmessage({ data: { kind: "sessions", rows: [], whole: true, cut: true } });
    this.port = port;
  }
};
"""
IS_TOO_WIDE = "() => document.documentElement.scrollWidth > innerWidth"
ADDS_A_USER = """() => fetch('/api/v1/users/eve', {
  method: 'PUT', body: JSON.stringify({name: 'eve', domain: 'default'}),
  headers: {'X-Sokovan-Proof': localStorage['sokovan-proof'], 'Content-Type': 'application/json'},
}).then((answer) => answer.status)"""
