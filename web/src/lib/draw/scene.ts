// A picture as a list of shapes: painted on a canvas for the screen and PNG, written as SVG for print.

export type Shape =
  | { type: 'rect'; x: number; y: number; w: number; h: number; fill: string; opacity?: number; radius?: number }
  | { type: 'text'; x: number; y: number; text: string; size: number; fill: string; anchor?: 'start' | 'middle' | 'end'; rotate?: number; weight?: number }
  | { type: 'path'; d: Curve; stroke: string; width: number; opacity?: number }
  | { type: 'polygon'; points: number[]; fill: string; stroke?: string; width?: number; opacity?: number } // fill "none": its outline only
  | { type: 'image'; x: number; y: number; w: number; h: number; source: HTMLCanvasElement } // more cells than shapes are worth
  | { type: 'line'; x1: number; y1: number; x2: number; y2: number; stroke: string; width: number };
export type Curve = [number, number, number, number, number, number, number, number]; // from, two control points, to
export interface Scene { width: number; height: number; background?: string; shapes: Shape[] }

export const fontFamily = 'system-ui, -apple-system, "Segoe UI", "Apple SD Gothic Neo", "Noto Sans KR", "Noto Sans CJK KR", "Malgun Gothic", sans-serif';

export function paint(scene: Scene, ctx: CanvasRenderingContext2D, ratio: number) {
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, scene.width, scene.height);
  if (scene.background) {
    ctx.fillStyle = scene.background;
    ctx.fillRect(0, 0, scene.width, scene.height);
  }
  for (const s of scene.shapes) {
    ctx.globalAlpha = ('opacity' in s ? s.opacity : undefined) ?? 1;
    if (s.type === 'rect') {
      ctx.fillStyle = s.fill;
      ctx.fillRect(s.x, s.y, s.w, s.h);
    } else if (s.type === 'path') {
      ctx.strokeStyle = s.stroke;
      ctx.lineWidth = s.width;
      ctx.beginPath();
      ctx.moveTo(s.d[0], s.d[1]);
      ctx.bezierCurveTo(s.d[2], s.d[3], s.d[4], s.d[5], s.d[6], s.d[7]);
      ctx.stroke();
    } else if (s.type === 'polygon') {
      ctx.beginPath();
      for (let i = 0; i < s.points.length; i += 2) ctx.lineTo(s.points[i], s.points[i + 1]);
      ctx.closePath();
      if (s.fill !== 'none') {
        ctx.fillStyle = s.fill;
        ctx.fill();
      }
      if (s.stroke) {
        ctx.strokeStyle = s.stroke;
        ctx.lineWidth = s.width ?? 1;
        ctx.lineJoin = 'round';
        ctx.stroke();
      }
    } else if (s.type === 'image') {
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(s.source, s.x, s.y, s.w, s.h);
    } else if (s.type === 'line') {
      ctx.strokeStyle = s.stroke;
      ctx.lineWidth = s.width;
      ctx.beginPath();
      ctx.moveTo(s.x1, s.y1);
      ctx.lineTo(s.x2, s.y2);
      ctx.stroke();
    } else {
      ctx.save();
      ctx.fillStyle = s.fill;
      ctx.font = `${s.weight ?? 400} ${s.size}px ${fontFamily}`;
      ctx.textAlign = s.anchor === 'middle' ? 'center' : (s.anchor ?? 'start');
      ctx.textBaseline = 'middle';
      ctx.translate(s.x, s.y);
      if (s.rotate) ctx.rotate((s.rotate * Math.PI) / 180);
      ctx.fillText(s.text, 0, 0);
      ctx.restore();
    }
  }
  ctx.globalAlpha = 1;
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]!);
}
const n = (x: number) => String(Math.round(x * 100) / 100);

export function toSvg(scene: Scene, title: string): string {
  const out = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${n(scene.width)}" height="${n(scene.height)}" viewBox="0 0 ${n(scene.width)} ${n(scene.height)}" font-family="${escape(fontFamily)}">`,
    `<title>${escape(title)}</title>`,
  ];
  if (scene.background) out.push(`<rect width="100%" height="100%" fill="${scene.background}"/>`);
  for (const s of scene.shapes) {
    const opacity = 'opacity' in s && s.opacity !== undefined ? ` opacity="${n(s.opacity)}"` : '';
    if (s.type === 'rect') out.push(`<rect x="${n(s.x)}" y="${n(s.y)}" width="${n(s.w)}" height="${n(s.h)}" fill="${s.fill}"${opacity}/>`);
    else if (s.type === 'polygon') out.push(`<polygon points="${s.points.map(n).join(' ')}" fill="${s.fill}"${s.stroke ? ` stroke="${s.stroke}" stroke-width="${n(s.width ?? 1)}" stroke-linejoin="round"` : ''}${opacity}/>`);
    else if (s.type === 'image') out.push(`<image x="${n(s.x)}" y="${n(s.y)}" width="${n(s.w)}" height="${n(s.h)}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${s.source.toDataURL()}"/>`);
    else if (s.type === 'line') out.push(`<line x1="${n(s.x1)}" y1="${n(s.y1)}" x2="${n(s.x2)}" y2="${n(s.y2)}" stroke="${s.stroke}" stroke-width="${n(s.width)}"/>`);
    else if (s.type === 'path') out.push(`<path d="M${n(s.d[0])} ${n(s.d[1])}C${s.d.slice(2).map(n).join(' ')}" fill="none" stroke="${s.stroke}" stroke-width="${n(s.width)}"${opacity}/>`);
    else {
      const turn = s.rotate ? ` transform="rotate(${s.rotate} ${n(s.x)} ${n(s.y)})"` : '';
      out.push(`<text x="${n(s.x)}" y="${n(s.y)}" font-size="${s.size}" fill="${s.fill}" dominant-baseline="central" text-anchor="${s.anchor ?? 'start'}"${s.weight ? ` font-weight="${s.weight}"` : ''}${turn} xml:space="preserve">${escape(s.text)}</text>`);
    }
  }
  out.push('</svg>');
  return out.join('\n');
}

export async function toPng(scene: Scene): Promise<Blob> {
  const canvas = document.createElement('canvas');
  const ratio = Math.min(2, 8192 / Math.max(scene.width, scene.height));
  canvas.width = Math.ceil(scene.width * ratio);
  canvas.height = Math.ceil(scene.height * ratio);
  paint(scene, canvas.getContext('2d')!, ratio);
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error('toBlob'))), 'image/png'));
}
