"""Scripts that tests of the dashboard run in its pages, and hostile texts that pages show."""

# As if a link had been followed: loading everything again for each page takes longer.
GOES = "(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }"
STOPS_WITH_A_REASON = """([name, reason]) => fetch(`/api/v1/sessions/${name}?reason=${encodeURIComponent(reason)}`, {
  method: 'DELETE', headers: {'X-Sokovan-Proof': localStorage['sokovan-proof']},
}).then((answer) => answer.status)"""
READS = """(path) => fetch(`/api/v1/${path}`, {
  headers: {'X-Sokovan-Proof': localStorage['sokovan-proof']},
}).then((answer) => answer.json())"""
# A browser that has none.
NO_SHARED_WORKERS = "delete globalThis.SharedWorker;"
# A worker whose fleet has a fault of the first device, which simulated devices do not have.
TELLS_A_FAULT = """
const Real = SharedWorker;
globalThis.SharedWorker = class extends Real {
  constructor(...words) {
    super(...words);
    const { port } = this;
    Object.defineProperty(port, 'onmessage', { set: (heard) => {
      port.addEventListener('message', (event) => {
        if (event.data.fleet) event.data.fleet.device_fault[0] = '%s';
        heard(event);
      });
      port.start();
    } });
  }
};
"""
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
# What is to run after a page was drawn waits until the test lets it go on.
HOLDS_FRAMES = """
const [frame, timer, held] = [globalThis.requestAnimationFrame, globalThis.setTimeout, []];
globalThis.requestAnimationFrame = (work) => held.push(work);
globalThis.setTimeout = (work, after = 0, ...rest) => (after <= 100 ? held.push(work) : timer(work, after, ...rest));
globalThis.letGoOn = () => {
  [globalThis.requestAnimationFrame, globalThis.setTimeout] = [frame, timer];
  for (const work of held) work(performance.now());
};
"""
NODES = "() => document.querySelectorAll('*').length"
IS_TOO_WIDE = "() => document.documentElement.scrollWidth > innerWidth"
ADDS_A_USER = """() => fetch('/api/v1/users/eve', {
  method: 'PUT', body: JSON.stringify({name: 'eve', domain: 'default'}),
  headers: {'X-Sokovan-Proof': localStorage['sokovan-proof'], 'Content-Type': 'application/json'},
}).then((answer) => answer.status)"""
# Colours, the title of a window, a bell, a page, a tag, and marks that turn the order of text around.
HOSTILE = "\\033[31mred\\033[0m \\033]0;title\\007 \\f <script>alert(1)</script> \\342\\200\\256gnp.exe\\n"
# A tag, a mark that turns the order of text around, and more than fits in any line.
NASTY = "<img src=x onerror=alert(1)>\u202egnp.exe" + "x" * 3000
