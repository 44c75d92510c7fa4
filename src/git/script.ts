import { fail } from '../lib/result.ts'

/**
 * What is done with git inside a teammate's clone is done inside its sandbox: as one `sh` script, whose output is read back here.
 * Its lines start with a mark, since hooks and git itself may write between them. Nothing here is trusted by the supervisor: it
 * looks at what it fetches.
 */
const mark = '@@team'

/** A word that the shell takes as it is. */
export const shellWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** The first line of each of them: what is told of it where a command is told. */
export const ownScript = '# git in the clone, as the team itself calls it, with the hooks there'

/** What every script starts with: only the clone it stands in, never a repository around it. */
export const preamble = (lockSeconds: number) => `${ownScript}
set -u
export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_EDITOR=true GIT_MERGE_AUTOEDIT=no
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_COMMON_DIR GIT_NAMESPACE GIT_PREFIX
say() { printf '\\n${mark} %s\\n' "$*"; }
lines() { tail -n 20 | while IFS= read -r l || [ -n "$l" ]; do say "$1 $l"; done; }
die() { printf '%s\\n' "$2" | lines "error:$1"; exit 3; }
[ -d .git ] && [ ! -L .git ] || die clone "there is no clone in $PWD"
export GIT_CEILING_DIRECTORIES="\${PWD%/*}"
dir="$PWD/.git"
g() { git -c core.fsmonitor=false -c core.quotePath=true -c core.safecrlf=false -c advice.addEmbeddedRepo=false -c gc.auto=0 "$@"; }
[ "$(g rev-parse --git-dir 2>&1)" = .git ] || die clone "there is no sound clone in $PWD: $(g rev-parse --git-dir 2>&1 | head -n 1)"
work=$(mktemp -d "\${TMPDIR:-/tmp}/team-git.XXXXXX") || die clone "no temporary folder"
trap 'rm -rf "$work"' EXIT
age() { now=$(date +%s); made=$(stat -c %Y "$1" 2>/dev/null || stat -f %m "$1" 2>/dev/null || echo "$now"); echo $((now - made)); }
unlock() {
  for lock in "$dir/index.lock" "$dir/HEAD.lock"; do
    n=0
    while [ -e "$lock" ] && [ $n -lt ${Math.round(lockSeconds * 10)} ]; do sleep 0.1; n=$((n + 1)); done
    [ -e "$lock" ] || continue
    old=$(age "$lock")
    [ "$old" -ge 600 ] || die lock "git is locked by $lock ($old s old); if no git runs there, remove that file"
    rm -f "$lock" && say "note removed $lock, left by a git that ended $old s ago"
  done
  # Of a ref git holds its lock for moments only, whatever a person does meanwhile: one that stays is a dead one's.
  for name in packed-refs.lock $(cd "$dir" && find refs -name '*.lock' 2>/dev/null); do
    lock="$dir/$name"
    n=0
    while [ -e "$lock" ] && [ $n -lt ${Math.round(lockSeconds * 10)} ]; do sleep 0.1; n=$((n + 1)); done
    [ -e "$lock" ] || continue
    rm -f "$lock" && say "note removed $lock, left by a git that was killed"
  done
}
`

/** What a script said, in order. */
export const told = (output: string): { key: string; value: string }[] =>
  output.split('\n').flatMap(row => {
    if (!row.startsWith(`${mark} `)) return []
    const [, key = '', value = ''] = /^(\S+) ?(.*)$/s.exec(row.slice(mark.length + 1)) ?? []
    return [{ key, value }]
  })

/** A path as git prints it: in double quotes with C escapes when anything in it is out of the ordinary. */
export const unquotePath = (text: string): string => {
  if (!text.startsWith('"') || !text.endsWith('"') || text.length < 2) return text
  const letters: Record<string, number> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13, '"': 34, '\\': 92 }
  const bytes: number[] = []
  const inner = Buffer.from(text.slice(1, -1))
  for (let i = 0; i < inner.length; i++) {
    const byte = inner[i] as number
    if (byte !== 92) {
      bytes.push(byte)
      continue
    }
    const octal = /^[0-7]{3}/.exec(inner.toString('latin1', i + 1, i + 4))
    if (octal) {
      bytes.push(Number.parseInt(octal[0], 8))
      i += 3
    } else {
      const letter = String.fromCharCode(inner[i + 1] ?? 92)
      bytes.push(letters[letter] ?? letter.charCodeAt(0))
      i += 1
    }
  }
  return Buffer.from(bytes).toString('utf8')
}

const codes = {
  lock: 'held',
  fetch: 'io',
  clone: 'invalid',
  rescue: 'refused',
  clean: 'refused',
  switch: 'refused',
  status: 'io',
} as const

/** Why a script did not get to its end: its own words, or what it printed last. */
export const faultOf = (rows: { key: string; value: string }[], output: string) => {
  const errors = rows.filter(row => row.key.startsWith('error:'))
  const kind = (errors[0]?.key.slice(6) ?? '') as keyof typeof codes
  const text =
    errors.length > 0 ? errors.map(row => row.value).join('\n') : `git did not answer: ${output.trim().slice(-500)}`
  return fail(codes[kind] ?? 'io', text)
}
