/* What a reader would see wrong in a page as it is shown: a list of sentences. */
async () => {
  const LEAST_CONTRAST = 4.5;
  const found = [];
  const width = document.documentElement.clientWidth;

  const parse = (text) => {
    const srgb = text.match(/^color\(srgb ([^)]*)\)/);
    const numbers = (srgb ? srgb[1] : text).match(/[\d.e-]+/g)?.map(Number) ?? [0, 0, 0, 0];
    const [r, g, b, alpha = 1] = numbers;
    return srgb ? [255 * r, 255 * g, 255 * b, alpha] : [r, g, b, alpha];
  };
  const over = ([r, g, b, alpha], ground) =>
    [r, g, b].map((part, i) => part * alpha + ground[i] * (1 - alpha)).concat(1);
  const luminance = (color) =>
    color.slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
      .reduce((sum, part, i) => sum + [0.2126, 0.7152, 0.0722][i] * part, 0);
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  /** The opaque colour behind an element's own text: its ancestors' grounds upon the page's. */
  const groundOf = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reduceRight((ground, layer) => over(layer, ground), [255, 255, 255, 1]);
  };

  const pixels = new Map();
  /** The colour of a picture in an SVG at a point of the window, null where it is transparent. */
  const pixelOf = async (image, x, y) => {
    if (!pixels.has(image)) {
      const loaded = new Image();
      loaded.src = image.getAttribute("href") ?? image.getAttribute("xlink:href");
      await loaded.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [loaded.naturalWidth, loaded.naturalHeight];
      const context = canvas.getContext("2d", { willReadFrequently: true });
      context.drawImage(loaded, 0, 0);
      pixels.set(image, context);
    }
    const box = image.getBoundingClientRect();
    const { canvas } = pixels.get(image);
    const at = [(canvas.width * (x - box.x)) / box.width, (canvas.height * (y - box.y)) / box.height];
    const [r, g, b, alpha] = pixels.get(image).getImageData(...at.map(Math.floor), 1, 1).data;
    return alpha ? [r, g, b, alpha / 255] : null;
  };

  /** The same in an SVG: the shapes that are drawn below the middle of the text. */
  const groundInPicture = async (text, box) => {
    const root = text.closest("svg");
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    let ground = groundOf(root.parentElement);
    const svgs = root.parentElement.querySelectorAll(":scope > svg");
    for (const shape of [...svgs].flatMap((svg) => [...svg.querySelectorAll("path, rect, image, circle")])) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
      const own = shape.getBoundingClientRect();
      if (!own.width || x < own.left || x > own.right || y < own.top || y > own.bottom) continue;
      if (shape.closest("defs, clipPath, mask, marker") || !shape.checkVisibility()) continue;
      if (shape.tagName === "image") {
        const color = await pixelOf(shape, x, y);
        if (color) ground = over(color, ground);
        continue;
      }
      const style = getComputedStyle(shape);
      const inverse = shape.getScreenCTM().inverse();
      const point = new DOMPoint(x, y).matrixTransform(inverse);
      if (style.fill === "none" || style.visibility === "hidden" || !shape.isPointInFill(point)) continue;
      let alpha = Number(style.fillOpacity);
      for (let at = shape; at && at !== root.parentElement; at = at.parentElement) {
        alpha *= Number(getComputedStyle(at).opacity);
      }
      const color = parse(style.fill);
      if (color[3] * alpha > 0) ground = over([...color.slice(0, 3), color[3] * alpha], ground);
    }
    return ground;
  };

  /** What is left of a box within its ancestors; whether one that cannot scroll cuts it. */
  const clipped = (element, box) => {
    let { left, right, top, bottom } = box, cut = false;
    for (let at = element; at && at !== document.documentElement; at = at.parentElement) {
      const style = getComputedStyle(at);
      const picture = at.tagName === "svg" && style.overflow !== "visible";
      const hides = (way) => way !== "visible" && (picture || at.tagName !== "text");
      const own = at.getBoundingClientRect();
      if (hides(style.overflowX) && at.namespaceURI.endsWith("xhtml") || picture) {
        if (style.overflowX === "hidden" || style.overflowX === "clip" || picture) {
          cut ||= left < own.left - 2 || right > own.right + 2;
        }
        left = Math.max(left, own.left);
        right = Math.min(right, own.right);
      }
      if (hides(style.overflowY) && at.namespaceURI.endsWith("xhtml") || picture) {
        if (style.overflowY === "hidden" || style.overflowY === "clip" || picture) {
          cut ||= top < own.top - 2 || bottom > own.bottom + 2;
        }
        top = Math.max(top, own.top);
        bottom = Math.min(bottom, own.bottom);
      }
    }
    return { left, right, top, bottom, cut };
  };

  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    const words = node.textContent.trim().replace(/\s+/g, " ").slice(0, 60);
    if (!words || element.closest("script, style, noscript, option, title, desc, defs")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (getComputedStyle(element).clipPath === "inset(50%)") continue; // for screen readers alone
    const range = document.createRange();
    range.selectNodeContents(node);
    const svg = element.namespaceURI.endsWith("svg");
    for (const box of range.getClientRects()) {
      if (box.width < 1 || box.height < 1) continue;
      const seen = clipped(element, box);
      if (seen.cut) found.push(`cut off: "${words}"`);
      if (seen.right - seen.left < 2 || seen.bottom - seen.top < 2) continue;
      if (seen.left < -1 || seen.right > width + 1) found.push(`beside the page: "${words}"`);
      const inset = 0.17 * box.height;
      texts.push({ element, words, svg, ...seen, top: seen.top + inset, bottom: seen.bottom - inset });
    }
  }

  if (document.documentElement.scrollWidth > width) {
    found.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  }

  texts.sort((one, other) => one.top - other.top);
  texts.forEach((one, at) => {
    for (let next = at + 1; next < texts.length && texts[next].top < one.bottom; next++) {
      const other = texts[next];
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - other.top;
      if (one.element === other.element || wide < 2 || high < 1.5) continue;
      found.push(`text over text: "${one.words}" and "${other.words}"`);
    }
  });

  const judged = new Set();
  for (const one of texts) {
    if (judged.has(one.element)) continue;
    judged.add(one.element);
    const style = getComputedStyle(one.element);
    const box = { x: one.left, y: one.top, width: one.right - one.left, height: one.bottom - one.top };
    const ground = one.svg ? await groundInPicture(one.element, box) : groundOf(one.element);
    const ink = parse(one.svg ? style.fill : style.color);
    if (one.svg) ink[3] *= Number(style.fillOpacity);
    for (let at = one.element; at; at = at.parentElement) ink[3] *= Number(getComputedStyle(at).opacity);
    const ratio = contrast(over(ink, ground), ground);
    if (ratio < LEAST_CONTRAST) {
      const colors = [ink, ground].map((color) => color.map((part) => Math.round(part)).join(" "));
      found.push(`contrast ${ratio.toFixed(1)} of "${one.words}" (${colors.join(" on ")})`);
    }
  }
  return [...new Set(found)];
}
