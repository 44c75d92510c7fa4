/**
 * A glob as a regular expression over a relative path with `/`: `*` and `?` stay within a name, `**` spans folders,
 * `[abc]` and `{a,b}` choose. No dotfile rule: `*` matches `.env` too. Text that closes nothing is taken literally.
 */
export const globToRegExp = (glob: string): RegExp => {
  let out = ''
  let depth = 0
  for (let i = 0; i < glob.length; i++) {
    const c = glob[i] as string
    if (c === '*') {
      const double = glob[i + 1] === '*'
      if (double && glob[i + 2] === '/') {
        out += '(?:[^/]+/)*'
        i += 2
      } else if (double) {
        out += '.*'
        i += 1
      } else out += '[^/]*'
    } else if (c === '?') out += '[^/]'
    else if (c === '[' && glob.indexOf(']', i + 2) > 0) {
      const end = glob.indexOf(']', i + 2)
      const inner = glob
        .slice(i + 1, end)
        .replace(/^!/, '^')
        .replace(/[\\[\]]/g, '\\$&')
      out += `[${inner}]`
      i = end
    } else if (c === '{' && glob.indexOf('}', i) > 0) {
      out += '(?:'
      depth++
    } else if (c === '}' && depth > 0) {
      out += ')'
      depth--
    } else if (c === ',' && depth > 0) out += '|'
    else out += c.replace(/[.+^$()|\\{}[\]/-]/g, '\\$&')
  }
  return new RegExp(`^${out}$`, 'su')
}

/** Whether `text` means more than itself as a glob. */
export const isGlob = (text: string): boolean => /[*?[{]/.test(text)
