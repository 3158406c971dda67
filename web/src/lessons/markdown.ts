// The Markdown that the lessons use: headings, paragraphs, lists, tables, fenced code, and bold, italic, code, links inside them.
// Everything is escaped first; pictures are left out, since the live model stands beside the text.

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]!);
}
function inline(text: string): string {
  const codes: string[] = [];
  return escape(text)
    .replace(/!\[[^\]]*\]\([^)]*\)/g, '')
    .replace(/`([^`]+)`/g, (_, code) => `\u0000${codes.push(code) - 1}\u0000`)
    .replace(/\[([^\]]+)\]\([^)]*\)/g, '$1')
    .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')
    .replace(/\*([^*]+)\*/g, '<em>$1</em>')
    .replace(/\u0000(\d+)\u0000/g, (_, i) => `<code>${codes[Number(i)]}</code>`);
}
function table(lines: string[]): string {
  const cells = (line: string) => line.replace(/^\||\|$/g, '').split('|').map((c) => inline(c.trim()));
  const [head, , ...rows] = lines;
  const row = (line: string, tag: string) => `<tr>${cells(line).map((c) => `<${tag}>${c}</${tag}>`).join('')}</tr>`;
  return `<div class="scroll" tabindex="0" role="region" aria-label="table"><table><thead>${row(head, 'th').replaceAll('<th></th>', '<td></td>')}</thead><tbody>${rows.map((r) => row(r, 'td')).join('')}</tbody></table></div>`;
}

export function titleOf(markdown: string): string {
  return markdown.match(/^# (.*)$/m)?.[1] ?? '';
}
export function render(markdown: string): string {
  const out: string[] = [];
  const lines = markdown.split('\n');
  for (let i = 0; i < lines.length; ++i) {
    const line = lines[i];
    if (line.trim() === '' || line.startsWith('# ')) continue;
    const take = (more: (line: string) => boolean): string[] => {
      const block = [line];
      while (i + 1 < lines.length && more(lines[i + 1])) block.push(lines[++i]);
      return block;
    };
    if (line.startsWith('```')) {
      const block = take((l) => !l.startsWith('```'));
      ++i;
      out.push(`<pre tabindex="0"><code>${escape(block.slice(1).join('\n'))}</code></pre>`);
    } else if (/^#{2,4} /.test(line)) {
      out.push(`<h3>${inline(line.replace(/^#+ /, ''))}</h3>`);
    } else if (line.startsWith('|')) {
      out.push(table(take((l) => l.startsWith('|'))));
    } else if (/^[-*] /.test(line)) {
      out.push(`<ul>${take((l) => /^([-*] |  )/.test(l)).map((l) => `<li>${inline(l.replace(/^[-*] /, ''))}</li>`).join('')}</ul>`);
    } else if (/^\d+\. /.test(line)) {
      out.push(`<ol>${take((l) => /^\d+\. /.test(l)).map((l) => `<li>${inline(l.replace(/^\d+\. /, ''))}</li>`).join('')}</ol>`);
    } else {
      const text = inline(take((l) => l.trim() !== '' && !/^(```|#|\||[-*] |\d+\. )/.test(l)).join(' ')).trim();
      if (text) out.push(`<p>${text}</p>`);
    }
  }
  return out.join('\n');
}
