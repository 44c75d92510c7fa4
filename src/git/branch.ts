import { ok, type Result } from '../lib/result.ts'
import { faultOf, preamble, shellWord, told, unquotePath } from './script.ts'

export interface SwitchOptions {
  /** The task's branch. */
  readonly branch: string
  /** Where it starts when it is new: a commit in the hub. */
  readonly start: string
  /** Its head in the hub, when it was worked on before. */
  readonly resume: string | null
  /** The hub's folder. */
  readonly hub: string
  /** The trunk's full ref in the hub. */
  readonly trunkRef: string
  /**
   * A commit of the trunk that the task was sent back for: unless the branch has it, the trunk as it is now is merged in, and a
   * conflict is left in the tree to be settled. What is uncommitted is saved aside before that.
   */
  readonly mergeTrunk: string | null
  /** How long somebody else's lock is waited for; default 5 s. */
  readonly lockSeconds?: number | undefined
}

export interface Switched {
  readonly branch: string
  readonly head: string
  /** The refs that work was saved to before anything was moved; empty when there was nothing to save. */
  readonly rescued: readonly string[]
  /** `left`: the merge could not start, see `notes`. */
  readonly mergedTrunk: 'no' | 'already' | 'clean' | 'conflict' | 'left'
  /** The paths in conflict. */
  readonly conflicts: readonly string[]
  /** Uncommitted work of this same branch that is still there. */
  readonly kept: boolean
  /** What else happened, for the teammate: a hook that failed, an old lock taken away. */
  readonly notes: readonly string[]
}

/** Functions that save what is uncommitted to `refs/team/rescue/…`: untracked files too, and ignored ones that the next branch would overwrite. */
const saving = `
head_now() { g rev-parse -q --verify HEAD; }
here() { g symbolic-ref -q --short HEAD || echo detached; }
dirty() { [ -n "$(g --no-optional-locks status --porcelain --untracked-files=normal 2>&1 | head -n 1)" ]; }
busy() { for f in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply BISECT_LOG; do [ -e "$dir/$f" ] && return 0; done; return 1; }
in_the_way() {
  g diff --name-only --no-renames -z --diff-filter=A HEAD "$1" -- | xargs -0 sh -c '
    for f; do
      if [ -e "$f" ] || [ -L "$f" ]; then printf "%s\\0" "$f"; continue; fi
      d=$f
      while case $d in */*) true ;; *) false ;; esac; do
        d=\${d%/*}
        if [ -L "$d" ] || { [ -e "$d" ] && [ ! -d "$d" ]; }; then printf "%s\\0" "$d"; break; fi
      done
    done' sh
}
nested() { g ls-files -o --exclude-standard -z | xargs -0 sh -c 'for f; do case $f in */) printf "%s\\0" "\${f%/}" ;; esac; done' sh; }
keep_ref() {
  short=$(printf %.10s "$2")
  ref="refs/team/rescue/$1-$(date -u +%Y%m%dT%H%M%SZ)-$short"
  g update-ref "$ref" "$2" || die rescue "what is uncommitted could not be saved; nothing was changed"
  say "rescued $ref"
}
save_work() {
  from=$(here)
  index="$work/index"
  rm -f "$index"
  staged=$(g write-tree 2>/dev/null || true)
  GIT_INDEX_FILE="$index" g read-tree HEAD || die rescue "the state of $from cannot be read"
  # A repository inside the clone is neither saved nor touched: it is not this repository's work.
  nested | tee "$work/nested" | xargs -0 sh -c 'printf ".\\0"; for f; do printf ":(exclude,literal)%s\\0" "$f"; done' sh >"$work/add"
  tr '\\0' '\\n' <"$work/nested" | while IFS= read -r f; do say "note $f is a repository of its own and was left where it is"; done
  out=$(GIT_INDEX_FILE="$index" g add -A --pathspec-from-file="$work/add" --pathspec-file-nul 2>&1) || die rescue "what is uncommitted could not be saved, so nothing was changed: $out"
  if [ -s "$work/way" ]; then
    out=$(GIT_LITERAL_PATHSPECS=1 GIT_INDEX_FILE="$index" g add -A -f --pathspec-from-file="$work/way" --pathspec-file-nul 2>&1) || die rescue "what is in the way could not be saved, so nothing was changed: $out"
  fi
  tree=$(GIT_INDEX_FILE="$index" g write-tree) || die rescue "what is uncommitted could not be saved; nothing was changed"
  set --
  if [ -n "$staged" ] && [ "$staged" != "$tree" ] && [ "$staged" != "$(g rev-parse 'HEAD^{tree}')" ]; then
    set -- -p "$(printf 'Staged on %s\\n' "$from" | g commit-tree "$staged" -p HEAD -F -)"
  fi
  if [ "$tree" = "$(g rev-parse 'HEAD^{tree}')" ] && [ $# -eq 0 ] && [ "$from" != detached ]; then
    :
  else
    saved=$(printf 'Uncommitted work on %s\\n' "$from" | g commit-tree "$tree" -p HEAD "$@" -F -) || die rescue "what is uncommitted could not be saved; nothing was changed"
    keep_ref "$from" "$saved"
  fi
  for op in cherry-pick revert rebase am; do g $op --quit >/dev/null 2>&1; done
  g bisect reset HEAD >/dev/null 2>&1
  out=$(g reset -q --hard HEAD 2>&1) || die clean "$out"
  out=$(g clean -q -f -d 2>&1) || die clean "$out"
  if [ -s "$work/way" ]; then xargs -0 rm -rf -- <"$work/way"; fi
}
`

/**
 * The script that makes the task's branch the one in hand. First it saves what is uncommitted on another branch to a rescue ref;
 * it brings the trunk as `hub/trunk`; then it switches: to the branch as the clone has it where that is newer than the hub's head,
 * to the hub's head where that is newer, and where both went their own way to the hub's head with the clone's saved. Uncommitted
 * work of the same branch stays. Run again, it changes nothing. Needs git, sh and coreutils; the hub readable.
 */
export const switchScript = (options: SwitchOptions): string => {
  const q = shellWord
  return `${preamble(options.lockSeconds ?? 5)}${saving}
branch=${q(options.branch)} start=${q(options.start)} resume=${q(options.resume ?? '')} merge=${q(options.mergeTrunk ?? '')}
synced="refs/team/synced/$branch"
unlock
head_now >/dev/null || die clone "HEAD names no commit"
out=$(g fetch -q --no-tags --no-write-fetch-head --no-recurse-submodules --upload-pack='git -c safe.directory=* upload-pack' ${q(options.hub)} ${q(`+${options.trunkRef}:refs/remotes/hub/trunk`)} 2>&1) || die fetch "the trunk cannot be read: $out"
for commit in $start $resume $merge; do g cat-file -e "$commit^{commit}" 2>/dev/null || die fetch "commit $commit is not in the hub"; done
mine=$(g rev-parse -q --verify "refs/heads/$branch^{commit}" || true)
last=$(g rev-parse -q --verify "$synced" || true)
older() { g merge-base --is-ancestor "$1" "$2"; }
takes_in() { [ -n "$merge" ] && ! older "$merge" HEAD && ! busy; }
target=$mine aside=
if [ -z "$mine" ]; then target=\${resume:-$start}
elif [ -z "$resume" ] || [ "$resume" = "$last" ] || older "$resume" "$mine"; then target=$mine
elif older "$mine" "$resume"; then target=$resume
else target=$resume aside=$mine
fi
current=$(here)
if [ "$current" != "$branch" ] || [ "$target" != "$mine" ]; then
  : >"$work/way"
  in_the_way "$target" >"$work/way"
  lost=
  if [ "$current" = detached ] && [ -z "$(g for-each-ref --contains HEAD --count=1)" ]; then lost=1; fi
  if busy || dirty || [ -s "$work/way" ]; then save_work
  elif [ -n "$lost" ]; then keep_ref detached "$(head_now)"
  fi
  [ -z "$aside" ] || keep_ref "$branch" "$aside"
  if [ "$current" = "$branch" ]; then g reset -q --hard "$target" >"$work/out" 2>&1
  else
    if [ -n "$mine" ] && [ "$target" != "$mine" ]; then g update-ref "refs/heads/$branch" "$target" "$mine" >"$work/out" 2>&1 || die switch "$(cat "$work/out")"; fi
    if [ -n "$mine" ]; then g switch -q "$branch" >"$work/out" 2>&1; else g switch -q --no-track -c "$branch" "$target" >"$work/out" 2>&1; fi
  fi
  code=$?
  # A post-checkout hook that fails makes git fail after the switch was made: told, not taken for a failure.
  if [ "$(here)" != "$branch" ] || [ "$(head_now)" != "$target" ]; then die switch "$(cat "$work/out")"; fi
  [ $code -eq 0 ] || { say "note a hook failed after the switch to $branch:"; lines note <"$work/out"; }
elif ! takes_in && { busy || dirty; }; then say kept
fi
g update-ref "$synced" "\${resume:-$target}"
if [ -n "$merge" ]; then
  trunk=refs/remotes/hub/trunk
  in_conflict() {
    [ -e "$dir/MERGE_HEAD" ] && [ -n "$(g ls-files -u | head -n 1)" ] || return 1
    say "merged conflict"
    g diff --name-only --diff-filter=U | head -n 50 | while IFS= read -r f; do say "conflict $f"; done
  }
  if older "$merge" HEAD; then say "merged already"
  elif in_conflict; then :
  elif busy; then say "merged left"; say "note an operation is in progress on $branch: finish or abort it, then merge hub/trunk"
  else
    # Saved, not kept: it could be what a merge left that was cut by a crash, and a merge needs a clean tree.
    in_the_way "$trunk" >"$work/way"
    if dirty || [ -s "$work/way" ]; then save_work; fi
    if g merge -q --ff --no-edit -m "Merge hub/trunk into $branch" "$trunk" >"$work/out" 2>&1; then say "merged clean"
    elif in_conflict; then :
    else say "merged left"; lines note <"$work/out"
    fi
  fi
fi
say "branch $branch"
say "head $(head_now)"
`
}

export interface CloneStatus {
  /** null when detached. */
  readonly branch: string | null
  readonly head: string
  /** Changed, staged and untracked paths, at most 50 of them. */
  readonly uncommitted: readonly string[]
  readonly uncommittedCount: number
  /** Commits that the trunk, as the clone last saw it, has not. */
  readonly commits: number
  /** A merge, rebase or the like that is not finished. */
  readonly operation: string | null
  /** Where commits of the branch have the marks of a conflict in them, as `path:line`; at most 20. */
  readonly marks: readonly string[]
}

/** The script that tells what is uncommitted and how many commits the branch has; takes no lock. */
export const statusScript = (): string => `${preamble(0)}
export GIT_OPTIONAL_LOCKS=0
out=$(g rev-parse -q --verify HEAD 2>&1) || die clone "HEAD names no commit"
g status --porcelain=v1 --untracked-files=all --no-renames >"$work/status" 2>"$work/err" || die status "$(cat "$work/err")"
head -n 50 "$work/status" | while IFS= read -r l; do say "path $l"; done
say "uncommitted $(grep -c '' "$work/status")"
for op in MERGE_HEAD:merge CHERRY_PICK_HEAD:cherry-pick REVERT_HEAD:revert rebase-merge:rebase rebase-apply:rebase; do
  [ ! -e "$dir/\${op%%:*}" ] || say "operation \${op##*:}"
done
branch=$(g symbolic-ref -q --short HEAD) && say "branch $branch"
g diff --check --no-ext-diff --no-textconv refs/remotes/hub/trunk...HEAD 2>/dev/null | sed -n 's/: leftover conflict marker$//p' | while IFS= read -r at; do
  f=\${at%:*}
  g show "HEAD:$f" 2>/dev/null >"$work/file" || continue
  # All three of them: a line of seven = alone is a heading in some languages.
  grep -q '^<<<<<<<' "$work/file" && grep -q '^=======' "$work/file" && grep -q '^>>>>>>>' "$work/file" && say "mark $at"
done | head -n 40
say "commits $(g rev-list --count HEAD ^refs/remotes/hub/trunk)"
say "head $out"
`

/** At most so many changed paths are told. */
const mostChanged = 2000

/**
 * The script that tells which paths the branch changes, committed or not, against where it left the trunk; both names of one
 * that was renamed. Nothing while a merge or the like is under way, which brings what others changed. Takes no lock.
 */
export const changedScript = (): string => `${preamble(0)}
export GIT_OPTIONAL_LOCKS=0
for op in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply; do [ ! -e "$dir/$op" ] || { say done; exit 0; }; done
base=$(g merge-base HEAD refs/remotes/hub/trunk 2>/dev/null || true)
{
  g diff --name-only --no-renames "\${base:-HEAD}" -- && g ls-files --others --exclude-standard
} >"$work/changed" 2>"$work/err" || die status "$(cat "$work/err")"
sort -u "$work/changed" | head -n ${mostChanged} | while IFS= read -r l; do say "path $l"; done
say done
`

/** What the script told of changed paths. Faults as `readSwitch`. */
export const readChanged = (output: string): Result<string[]> => {
  const rows = told(output)
  if (!rows.some(row => row.key === 'done') || rows.some(row => row.key.startsWith('error:')))
    return faultOf(rows, output)
  return ok(rows.flatMap(row => (row.key === 'path' ? [unquotePath(row.value)] : [])))
}

/** What the switch script did, from its output. Faults: `held` (a lock that stayed, its age and path told), `refused`, `invalid` (no clone), `io`. */
export const readSwitch = (output: string): Result<Switched> => {
  const rows = told(output)
  const one = (key: string) => rows.findLast(row => row.key === key)?.value
  const all = (key: string) => rows.flatMap(row => (row.key === key ? [row.value] : []))
  const head = one('head')
  const branch = one('branch')
  if (!head || !branch || rows.some(row => row.key.startsWith('error:'))) return faultOf(rows, output)
  const merged = one('merged')
  return ok({
    branch,
    head,
    rescued: all('rescued'),
    mergedTrunk:
      merged === 'already' || merged === 'clean' || merged === 'conflict' || merged === 'left' ? merged : 'no',
    conflicts: all('conflict').map(unquotePath),
    kept: one('kept') !== undefined,
    notes: all('note'),
  })
}

/** What the status script told. Faults as `readSwitch`. */
export const readStatus = (output: string): Result<CloneStatus> => {
  const rows = told(output)
  const one = (key: string) => rows.findLast(row => row.key === key)?.value
  const head = one('head')
  if (!head || rows.some(row => row.key.startsWith('error:'))) return faultOf(rows, output)
  return ok({
    branch: one('branch') ?? null,
    head,
    uncommitted: rows.flatMap(row => (row.key === 'path' ? [unquotePath(row.value.slice(3))] : [])),
    uncommittedCount: Number(one('uncommitted') ?? 0),
    commits: Number(one('commits') ?? 0),
    operation: one('operation') ?? null,
    marks: rows.flatMap(row => (row.key === 'mark' ? [row.value] : [])).slice(0, 20),
  })
}
