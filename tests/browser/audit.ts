import type { Page } from 'playwright-core';

export interface Expectations {
  language: 'zh-CN' | 'en';
  /** Whether fingers, not a mouse, must hit what can be pressed. */
  touch: boolean;
}

const MIN_TARGET = 44;
const MIN_CONTRAST = 4.5;

/** Everything on the page that a person with a small screen, thick fingers, weak eyes or a screen reader trips over. */
export async function audit(page: Page, { language, touch }: Expectations): Promise<string[]> {
  const width = page.viewportSize()?.width ?? 0;
  const given = { language, touch, width, MIN_TARGET, MIN_CONTRAST };
  return page.locator('html').evaluate((html, expected) => {
    const document = html.ownerDocument;
    const view = document.defaultView;
    const faults: string[] = [];
    type Shown = typeof html;
    const all: Shown[] = [...document.body.querySelectorAll('*')];
    const isShown = (element: Shown) =>
      element.checkVisibility({ visibilityProperty: true }) &&
      !element.closest('.hidden-visually, .skip, svg') &&
      // Cards say in each cell what the heads of the table say; the heads are there for screen readers.
      !(expected.touch && element.closest('thead'));
    const nameOf = (element: Shown) => {
      const words = (element.textContent || element.value || '').trim().replace(/\s+/g, ' ').slice(0, 40);
      return `<${element.localName} class="${element.getAttribute('class') ?? ''}"> ${words}`;
    };

    if (html.lang !== expected.language) faults.push(`lang is ${html.lang}`);
    const headings = document.querySelectorAll('h1').length;
    if (headings !== 1) faults.push(`${headings} h1`);
    if (!document.title.trim()) faults.push('no title');
    const ids = all.map(({ id }) => id).filter(Boolean);
    for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at)))
      faults.push(`id ${id} stands twice`);

    // Nothing beyond the edge, nothing wider than the box around it.
    if (html.scrollWidth > expected.width) faults.push(`the page is ${html.scrollWidth} wide`);
    for (const element of all) {
      if (!isShown(element)) continue;
      const { right, left } = element.getBoundingClientRect();
      if (right > expected.width + 0.5 || left < -0.5) faults.push(`beyond the edge: ${nameOf(element)}`);
      const mayHide = element.matches('input, select, textarea, details');
      if (!mayHide && element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1)
        faults.push(`too wide for its box: ${nameOf(element)}`);
    }

    for (const field of document.querySelectorAll('input:not([type="hidden"]), select, textarea')) {
      const labels = [...(field.labels ?? [])].map((label) => label.textContent.trim());
      if (labels.join('') === '') faults.push(`no label: ${field.name}`);
      for (const id of (field.getAttribute('aria-describedby') ?? '').split(' ').filter(Boolean))
        if (!document.getElementById(id)) faults.push(`nothing has the id ${id}`);
    }
    for (const pressed of document.querySelectorAll('a[href], button, summary')) {
      const told = pressed.getAttribute('aria-label') ?? pressed.textContent;
      const picture = pressed.querySelector('img[alt]')?.alt;
      if (isShown(pressed) && !(told?.trim() || picture)) faults.push(`no name: ${nameOf(pressed)}`);
    }
    for (const image of document.querySelectorAll('img')) {
      if (!image.alt) faults.push(`no alternative: ${image.src}`);
      if (image.complete && image.naturalWidth === 0) faults.push(`not shown: ${image.src}`);
    }

    if (expected.touch) {
      const half = expected.MIN_TARGET / 2 - 1;
      for (const target of document.querySelectorAll(
        'a[href], button, summary, select, textarea, input:not([type="hidden"])',
      )) {
        if (!isShown(target)) continue;
        // A link within running text is as high as its line.
        if (view.getComputedStyle(target).display === 'inline' && target.closest('p, dd')) continue;
        if (target.getBoundingClientRect().height >= expected.MIN_TARGET - 0.5) continue;
        target.scrollIntoView({ block: 'center', behavior: 'instant' });
        const { left, width, top, height } = target.getBoundingClientRect();
        const hits = (y: number) => {
          const hit = document.elementFromPoint(left + width / 2, y);
          return hit !== null && (target.contains(hit) || hit.closest('label')?.control === target);
        };
        const middle = top + height / 2;
        // What is small may answer around itself; what lies at its place's edge, above or below its middle.
        if (!(hits(middle - half) && hits(middle + half))) {
          faults.push(`${Math.round(height)} high: ${nameOf(target)}`);
        }
      }
      view.scrollTo(0, 0);
    }

    // Contrast of words, seen through whatever is half transparent.
    type Colour = [number, number, number, number];
    const canvas = document.createElement('canvas');
    canvas.width = 1;
    canvas.height = 1;
    const brush = canvas.getContext('2d', { willReadFrequently: true });
    const known = new Map<string, Colour>();
    const read = (text: string): Colour => {
      let colour = known.get(text);
      if (!colour) {
        brush.clearRect(0, 0, 1, 1);
        brush.fillStyle = text;
        brush.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
        colour = [r, g, b, a / 255];
        known.set(text, colour);
      }
      return colour;
    };
    const over = ([r, g, b, a]: Colour, [br, bg, bb]: Colour): Colour => [
      r * a + br * (1 - a),
      g * a + bg * (1 - a),
      b * a + bb * (1 - a),
      1,
    ];
    const luminance = (colour: Colour) => {
      const [r = 0, g = 0, b = 0] = colour.slice(0, 3).map((part) => {
        const share = part / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element: Shown | null): Colour => {
      if (!element) return [255, 255, 255, 1];
      const own = read(view.getComputedStyle(element).backgroundColor);
      return own[3] === 1 ? own : over(own, behind(element.parentElement));
    };
    for (const element of all) {
      const nodes = [...element.childNodes] as { nodeType: number; textContent: string }[];
      const hasWords = nodes.some((node) => node.nodeType === 3 && node.textContent.trim() !== '');
      const isField = element.matches('input:not([type="checkbox"]):not([type="hidden"]), select, textarea');
      if (!isShown(element) || !(hasWords || isField) || element.localName === 'option') continue;
      const ground = behind(element);
      const part = element.placeholder && !element.value ? '::placeholder' : undefined;
      const ink = over(read(view.getComputedStyle(element, part).color), ground);
      const [light, dark] = [luminance(ink), luminance(ground)].sort((one, other) => other - one) as [
        number,
        number,
      ];
      const contrast = (light + 0.05) / (dark + 0.05);
      if (contrast < expected.MIN_CONTRAST)
        faults.push(`contrast ${contrast.toFixed(2)}: ${nameOf(element)}`);
    }
    return faults;
  }, given);
}
