/**
 * What overlaps with what: the one answer for leases and for the paths of tasks. Paths are globs from the top of the
 * workspace: `*` and `?` stay within a name, `**` spans folders, `[abc]` and `{a,b}` choose, where `[abc]` is also itself.
 * One whose last name has no `*` and no `?` stands for everything below too, so a folder's name is enough. Ports and names
 * overlap when they are the same.
 */
export interface Claim {
  readonly kind: 'path' | 'port' | 'name'
  readonly what: readonly string[]
}

/** In place of a port: one that is free, and stays it while it is held. */
export const anyPort = 'any'

/** May the two never be held by two at once? `any` is a port nobody has, so it meets nothing. */
export const clash = (a: Claim, b: Claim): boolean => {
  if (a.kind !== b.kind) return false
  if (a.kind === 'path') return overlaps(a.what, b.what)
  return a.what.some(one => one !== anyPort && b.what.includes(one))
}

/** May two sets of globs touch the same file? Exact for globs. An empty set is everything. */
export const overlaps = (a: readonly string[], b: readonly string[]): boolean =>
  everything(a).some(x => everything(b).some(y => x === y || meet(compiled(x), compiled(y))))

/** Is this path, taken literally, one of those that the globs stand for? An empty set is everything. */
export const covers = (globs: readonly string[], path: string): boolean =>
  everything(globs).some(glob => accepts(compiled(glob), parts(path).join('/')))

/** What is claimed as it is compared and shown: each once (but `any`), without `./`, a `/` at an end, and blanks around. */
export const tidy = ({ kind, what }: Claim): string[] =>
  what
    .map(one => (kind === 'path' ? parts(one.trim()).join('/') || '**' : one.trim()))
    .filter((one, i, all) => (kind === 'port' && one === anyPort) || all.indexOf(one) === i)

/** Globs of one lease may have so many characters together: comparing two takes at most their product in steps. */
const mostCharacters = 1000

/** What is wrong with it, in words; null when nothing is. */
export const claimFault = ({ kind, what }: Claim): string | null => {
  if (kind === 'port') {
    const bad = what.find(one => one !== anyPort && !(/^[1-9]\d{0,4}$/.test(one) && Number(one) <= 65_535))
    return bad === undefined ? null : `"${bad}" is no port: give a number from 1 to 65535, or ${anyPort}`
  }
  if (what.some(one => one.trim() === '')) return `a ${kind} must not be empty`
  if (kind === 'name') return null
  if (what.some(one => one.split('/').includes('..'))) return 'a path starts at the top of the workspace: no ".."'
  return what.join('').length > mostCharacters
    ? `the globs have more than ${mostCharacters} characters together: name the folder they are in`
    : null
}

const parts = (path: string): string[] => path.split('/').filter(part => part !== '' && part !== '.')

const everything = (globs: readonly string[]): readonly string[] => (globs.length === 0 ? ['**'] : globs)

// --- a glob as an automaton: two globs overlap when some path leads both to their ends

/** Code points from lo to hi, both included. */
type Span = readonly [lo: number, hi: number]
interface State {
  /** Reached without reading. */
  readonly free: number[]
  readonly reads: { readonly spans: readonly Span[]; readonly to: number }[]
}
interface Automaton {
  readonly states: readonly State[]
  readonly start: readonly number[]
  readonly end: number
  /** What every match begins with. */
  readonly head: string
}

const slash = 47
const last = 0x10ffff
const inName: readonly Span[] = [
  [0, slash - 1],
  [slash + 1, last],
]
const any: readonly Span[] = [[0, last]]

const cache = new Map<string, Automaton>()
const compiled = (glob: string): Automaton => {
  const known = cache.get(glob)
  if (known) return known
  if (cache.size >= 1000) cache.clear()
  // What leads out of the workspace and perhaps back cannot be compared, so it counts as everything.
  const made = compile(glob.split('/').includes('..') ? '**' : parts(glob).join('/') || '**')
  cache.set(glob, made)
  return made
}

const compile = (glob: string): Automaton => {
  const states: State[] = []
  const state = (): number => states.push({ free: [], reads: [] }) - 1
  const free = (from: number, to: number) => states[from]?.free.push(to)
  const read = (from: number, spans: readonly Span[], to: number) => states[from]?.reads.push({ spans, to })
  const literal = (from: number, c: string): number => {
    const to = state()
    const code = c.codePointAt(0) ?? 0
    read(from, [[code, code]], to)
    return to
  }
  const loop = (from: number, spans: readonly Span[]): number => {
    const to = state()
    free(from, to)
    read(to, spans, to)
    return to
  }
  const chars = [...glob]
  /** Reads from `i` up to the end, or to what ends an alternative inside of braces; answers where it stands, in both. */
  const sequence = (from: number, i: number, inBraces: boolean): { at: number; i: number } => {
    let at = from
    while (i < chars.length) {
      const c = chars[i] ?? ''
      if (inBraces && (c === ',' || c === '}')) break
      if (c === '*' && chars[i + 1] === '*') {
        const spansFolders = chars[i + 2] === '/'
        i += 2
        if (spansFolders) {
          // (name/)*
          const round = state()
          free(at, round)
          const name = loop(round, inName)
          read(name, [[slash, slash]], round)
          at = state()
          free(round, at)
          i++
        } else at = loop(at, any)
      } else if (c === '*') {
        at = loop(at, inName)
        i++
      } else if (c === '?') {
        const to = state()
        read(at, inName, to)
        at = to
        i++
      } else if (c === '[' && chars.indexOf(']', i + 2) > 0) {
        const close = chars.indexOf(']', i + 2)
        const to = state()
        read(at, choice(chars.slice(i + 1, close)), to)
        // Files are named so too, and who names one of them means it.
        free(chars.slice(i, close + 1).reduce(literal, at), to)
        at = to
        i = close + 1
      } else if (c === '{' && closes(chars, i)) {
        const to = state()
        do {
          const branch = state()
          free(at, branch)
          const one = sequence(branch, i + 1, true)
          free(one.at, to)
          i = one.i
        } while (chars[i] === ',')
        at = to
        i++
      } else {
        at = literal(at, c)
        i++
      }
    }
    return { at, i }
  }
  const start = state()
  const { at } = sequence(start, 0, false)
  const end = state()
  free(at, end)
  const isPlain = !/[*?]/.test(glob.slice(glob.lastIndexOf('/') + 1))
  if (isPlain) free(loop(literal(at, '/'), any), end)
  const wild = glob.search(/[*?[{]/)
  return { states, start: closure(states, [start]), end, head: wild < 0 ? glob : glob.slice(0, wild) }
}

/** Does the brace at `open` have its end? Else it is a character as any other. */
const closes = (chars: readonly string[], open: number): boolean => {
  let depth = 0
  for (let i = open; i < chars.length; i++) {
    if (chars[i] === '{') depth++
    if (chars[i] === '}' && --depth === 0) return true
  }
  return false
}

/** `abc`, `a-z`, `!a`, `^a`: never a slash. */
const choice = (chars: readonly string[]): Span[] => {
  const not = chars[0] === '!' || chars[0] === '^'
  const spans: Span[] = []
  const from = not ? 1 : 0
  for (let i = from; i < chars.length; i++) {
    const lo = chars[i]?.codePointAt(0) ?? 0
    const isRange = chars[i + 1] === '-' && i + 2 < chars.length
    const hi = isRange ? (chars[i + 2]?.codePointAt(0) ?? lo) : lo
    if (isRange) i += 2
    spans.push([Math.min(lo, hi), Math.max(lo, hi)])
  }
  return not ? shared(without(spans), inName) : shared(spans, inName)
}

const without = (spans: readonly Span[]): Span[] => {
  const out: Span[] = []
  let from = 0
  for (const [lo, hi] of [...spans].sort((a, b) => a[0] - b[0])) {
    if (lo > from) out.push([from, lo - 1])
    from = Math.max(from, hi + 1)
  }
  if (from <= last) out.push([from, last])
  return out
}

const shared = (a: readonly Span[], b: readonly Span[]): Span[] =>
  a.flatMap(([lo, hi]) =>
    b.flatMap(([low, high]): Span[] => {
      const span: Span = [Math.max(lo, low), Math.min(hi, high)]
      return span[0] <= span[1] ? [span] : []
    }),
  )
const touch = (a: readonly Span[], b: readonly Span[]): boolean =>
  a.some(([lo, hi]) => b.some(([low, high]) => lo <= high && low <= hi))

/** These states and all that are reached from them without reading. */
const closure = (states: readonly State[], from: readonly number[]): number[] => {
  const all = new Set(from)
  for (const at of all) for (const to of states[at]?.free ?? []) all.add(to)
  return [...all]
}

const accepts = ({ states, start, end }: Automaton, text: string): boolean => {
  let now: readonly number[] = start
  for (const c of text) {
    const code = c.codePointAt(0) ?? 0
    const next = now.flatMap(at =>
      (states[at]?.reads ?? []).flatMap(({ spans, to }) => (touch(spans, [[code, code]]) ? [to] : [])),
    )
    now = closure(states, [...new Set(next)])
  }
  return now.includes(end)
}

/** Is there a path that both match? Walks pairs of states, each once. */
const meet = (a: Automaton, b: Automaton): boolean => {
  const short = Math.min(a.head.length, b.head.length)
  if (a.head.slice(0, short) !== b.head.slice(0, short)) return false
  const width = b.states.length
  const seen = new Set<number>()
  const todo: number[] = []
  const reach = (x: number, y: number) => {
    const pair = x * width + y
    if (seen.has(pair)) return
    seen.add(pair)
    todo.push(pair)
  }
  for (const x of a.start) for (const y of b.start) reach(x, y)
  for (let pair = todo.pop(); pair !== undefined; pair = todo.pop()) {
    const [x, y] = [Math.floor(pair / width), pair % width]
    if (x === a.end && y === b.end) return true
    for (const to of a.states[x]?.free ?? []) reach(to, y)
    for (const to of b.states[y]?.free ?? []) reach(x, to)
    for (const left of a.states[x]?.reads ?? [])
      for (const right of b.states[y]?.reads ?? []) if (touch(left.spans, right.spans)) reach(left.to, right.to)
  }
  return false
}
