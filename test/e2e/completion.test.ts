import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { cleanEnv, command, team, teamOk, teamRoot, tempFolder } from '../support/cli.ts'
import { scriptedTeam } from '../support/scripted-team.ts'

/** A folder with `team` in it, as an installation has on PATH. */
const installed = (): string => {
  const folder = tempFolder()
  const file = join(folder, 'team')
  writeFileSync(file, `#!/bin/sh\nexec '${process.execPath}' '${command}' "$@"\n`)
  chmodSync(file, 0o755)
  return folder
}
const has = (shell: string): boolean => spawnSync(shell, ['-c', 'exit 0']).status === 0

/** What bash offers for a line, the last word begun. */
const inBash = async (words: readonly string[], cwd: string): Promise<string[]> => {
  const script = await teamOk(['completion', 'bash'])
  const ran = spawnSync(
    'bash',
    [
      '--norc',
      '-c',
      `eval "$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _team; printf '%s\\n' "\${COMPREPLY[@]}"`,
      'bash',
      'team',
      ...words,
    ],
    { cwd, encoding: 'utf8', env: { ...cleanEnv(), SCRIPT: script, PATH: `${installed()}:${process.env.PATH}` } },
  )
  expect(ran.stderr).toBe('')
  return ran.stdout.split('\n').filter(Boolean)
}

describe.skipIf(!has('bash'))('bash', () => {
  test('commands, subcommands, options and the words an option takes', async () => {
    const root = teamRoot()
    expect(await inBash(['re'], root)).toEqual(['reject', 'replay', 'requests', 'rescue', 'restart'])
    expect(await inBash(['task', ''], root)).toEqual(['add', 'cancel', 'graph', 'list', 'retry', 'show'])
    expect(await inBash(['send', '--u'], root)).toEqual(['--urgent'])
    expect(await inBash(['send', '--type', 'r'], root)).toEqual(['reply'])
    expect(await inBash(['completion', ''], root)).toEqual(['bash', 'zsh', 'fish'])
  })

  test('ids and names come from the files where no daemon runs, and from the daemon where one does', async () => {
    const crew = await scriptedTeam({ alice: () => 'Read.', bob: () => 'Read.' })
    await teamOk(['task', 'add', 'One', '--after', '2', '--root', crew.root])
    expect(await inBash(['chat', ''], crew.root)).toEqual(['alice', 'bob'])
    expect(await inBash(['task', 'show', ''], crew.root)).toEqual(['1'])
    await crew.up()
    await teamOk(['send', 'alice', 'hello', '--root', crew.root])
    expect(await inBash(['send', 'b'], crew.root)).toEqual(['bob'])
    expect(await inBash(['task', 'cancel', '1', ''], crew.root)).toEqual(['1'])
    expect(await inBash(['--root', crew.root, 'task', 'add', '--after', ''], '/')).toEqual(['1'])
  })

  test('where there is no team root nothing is offered, and nothing is said', async () => {
    expect(await inBash(['chat', ''], '/')).toEqual([])
  })
})

/** What `team task show` and the like are offered in zsh, by the function that both it and bash ask. */
const inZsh = async (words: readonly string[], cwd: string): Promise<string[]> => {
  const script = await teamOk(['completion', 'zsh'])
  const load = `compdef() { :; }; eval "$SCRIPT"; _team_words "$@"`
  const env = { ...cleanEnv(), HOME: tempFolder(), SCRIPT: script, PATH: `${installed()}:${process.env.PATH}` }
  const ran = spawnSync('zsh', ['-f', '-c', load, 'zsh', words.at(-1) ?? '', ...words.slice(0, -1)], {
    cwd,
    encoding: 'utf8',
    env,
  })
  expect(ran.stderr).toBe('')
  return ran.stdout.split('\n').filter(Boolean)
}

/** What fish offers, each with what it is. */
const inFish = async (words: readonly string[], cwd: string): Promise<string[]> => {
  const script = await teamOk(['completion', 'fish'])
  const env = {
    ...cleanEnv(),
    HOME: tempFolder(),
    SCRIPT: script,
    LINE: `team ${words.join(' ')}`,
    PATH: `${installed()}:${process.env.PATH}`,
    LC_ALL: 'C.UTF-8',
  }
  const ran = spawnSync('fish', ['--no-config', '-c', 'echo $SCRIPT | source; complete -C $LINE'], {
    cwd,
    encoding: 'utf8',
    env,
  })
  expect(ran.stderr).toBe('')
  return ran.stdout.split('\n').filter(Boolean)
}

describe.each([
  ['bash', inBash],
  ['zsh', inZsh],
  ['fish', inFish],
] as const)('odd names in %s', (shell, offered) => {
  test.skipIf(!has(shell))('are data: nothing of them is run, and no word is broken in two', async () => {
    const root = teamRoot({ teammates: [{ name: 'front-end' }, { name: 'bob' }], sandbox: 'off' })
    const evil = (mark: string) => `'"\`touch ${mark}\` $(touch ${mark}) \${HOME} ; touch ${mark} # 中文 \n--help \t* ?`
    await teamOk(['task', 'add', evil('title'), '--root', root])
    await teamOk(['task', 'add', 'Two', '--root', root])
    const files = readdirSync(root).sort()
    const ids = async (words: string[]) => (await offered(words, root)).map(line => line.split('\t')[0])
    const both = async () => {
      expect(await ids(['task', 'show', ''])).toEqual(['1', '2'])
      expect(await ids(['chat', 'f'])).toEqual(shell === 'zsh' ? ['front-end', 'bob'] : ['front-end'])
    }
    await both()
    // What lies in the folders and is not the program's is offered only where it can be an id or a name.
    for (const [i, id] of [evil('id'), '$(touch id)', '`touch id`', '-x', 'a\tb', 'a\nb', '*'].entries())
      writeFileSync(join(root, '.tasks', `hand-${i}.json`), JSON.stringify({ id, title: 'x', status: 'pending' }))
    writeFileSync(
      join(root, 'config.json'),
      JSON.stringify({
        teammates: [{ name: 'front-end' }, { name: 'bob' }, { name: '$(touch name)' }, { name: 'a b' }],
      }),
    )
    await both()
    expect(readdirSync(root).sort()).toEqual(files)
  })
})

describe.each([
  ['bash', inBash],
  ['zsh', inZsh],
  ['fish', inFish],
] as const)('--root in %s', (shell, offered) => {
  test.skipIf(!has(shell))('says of which team ids and names are, whichever way it is given', async () => {
    const root = teamRoot({ teammates: [{ name: 'alice' }, { name: 'bob' }], sandbox: 'off' })
    await teamOk(['task', 'add', 'One', '--root', root])
    const at = async (...words: string[]) => (await offered(words, '/')).map(line => line.split('\t')[0])
    // bash parts the words at =, and hands them over so.
    const joined = shell === 'bash' ? ['--root', '=', root] : [`--root=${root}`]
    for (const given of [['--root', root], joined]) {
      expect(await at(...given, 'task', 'show', '')).toEqual(['1'])
      expect(await at('chat', ...given, '')).toEqual(['alice', 'bob'])
      expect(await at(...given, 'task', 'add', 'x', '--assignee', '')).toEqual(['alice', 'bob'])
      expect(await at(...given, 'doc')).toEqual(shell === 'zsh' ? expect.arrayContaining(['doctor']) : ['doctor'])
    }
    expect(await at('chat', '')).toEqual([])
  })
})

describe.each(['zsh', 'fish'])('%s', shell => {
  test.skipIf(!has(shell))('reads its script without a word', async () => {
    const script = await teamOk(['completion', shell])
    const load = shell === 'zsh' ? 'autoload -U compinit; compinit -u -D; eval "$SCRIPT"' : 'eval "$SCRIPT"'
    const env = { ...cleanEnv(), HOME: tempFolder(), SCRIPT: script, PATH: `${installed()}:${process.env.PATH}` }
    expect(spawnSync(shell, ['-c', load], { encoding: 'utf8', env })).toMatchObject({ status: 0, stderr: '' })
  })

  test('names every command', async () => {
    const script = await teamOk(['completion', shell])
    for (const word of ['chat', 'replay', 'prefix', 'requests', 'completion']) expect(script).toContain(word)
  })
})

describe.each(['bash', 'zsh', 'fish'])('without team on PATH, as under an alias, in %s', shell => {
  test.skipIf(!has(shell))(
    'ids come from the program that printed the script; where that is gone, from PATH',
    async () => {
      const root = teamRoot()
      await teamOk(['task', 'add', 'One', '--root', root])
      const printed = await teamOk(['completion', shell])
      const gone = printed.replaceAll(command, join(root, 'gone.cjs'))
      expect(gone).not.toBe(printed)
      const ask =
        shell === 'fish' ? 'echo $SCRIPT | source; __team_ask tasks | cut -f 1' : 'eval "$SCRIPT"; _team_ask tasks ""'
      const asked = (script: string, path: string) => {
        const env = { ...cleanEnv(), HOME: tempFolder(), SCRIPT: script, PATH: path }
        const load = shell === 'zsh' ? `compdef() { :; }; ${ask}` : ask
        return spawnSync(shell, ['-c', load], { cwd: root, encoding: 'utf8', env }).stdout
      }
      const path = process.env.PATH ?? ''
      expect(asked(printed, path)).toBe('1\n')
      expect(asked(gone, path)).toBe('')
      expect(asked(gone, `${installed()}:${path}`)).toBe('1\n')
    },
  )
})

test('a shell that there is no script for is refused: 2', async () => {
  expect((await team(['completion', 'tcsh'])).code).toBe(2)
})
