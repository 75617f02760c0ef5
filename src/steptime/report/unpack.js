/* What Python packed into a page's scripts: seven bits a character, deflated. */

/** The bytes that a text stands for. */
function bytesOf(text) {
  const bytes = new Uint8Array(Math.floor((7 * text.length) / 8));
  for (let i = 0, at = 0, bits = 0, held = 0; i < text.length; i++) {
    bits = ((bits << 7) | (text.charCodeAt(i) & 127)) & 0x7fff;
    held += 7;
    if (held >= 8) bytes[at++] = bits >> (held -= 8);
  }
  return bytes;
}

function inflated(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
}

const textIn = (id) => inflated(bytesOf(document.getElementById(id).textContent)).text();

let figures;

/** Resolves once plotly.js and the page's figures are there. */
const plotlyLoaded = Promise.all([textIn("plotly"), textIn("figures")]).then(([code, json]) => {
  figures = JSON.parse(json);
  const script = document.createElement("script");
  script.textContent = code;
  document.head.append(script);
});
