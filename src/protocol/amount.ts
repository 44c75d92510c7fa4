import type { BudgetData, Price, Used } from './budget.ts'

/** What a call of the model takes up to be counted: tokens in and out, or what they cost at the model's `price`. */
export const units = ['tokens', 'cost'] as const
export type Unit = (typeof units)[number]
/** On whom a cap is: all together, one teammate over all its tasks, one task over all who worked on it. */
export const scopes = ['team', 'teammate', 'task'] as const
export type Scope = (typeof scopes)[number]

/** What `used` costs, in the currency of the price. */
export const costOf = (used: Omit<Used, 'calls'>, price: Price | null): number =>
  price === null
    ? 0
    : ((used.input - used.cachedInput) * price.in +
        used.cachedInput * (price.cachedIn ?? price.in) +
        used.output * price.out) /
      1e6

/** What was used since `seen`. Where a session began anew, all that it has used is new. */
export const since = (seen: Used, used: Used): Used => {
  const isSame = used.calls >= seen.calls && used.input >= seen.input && used.output >= seen.output
  const from = isSame ? seen : { input: 0, cachedInput: 0, output: 0, calls: 0 }
  return {
    input: used.input - from.input,
    cachedInput: Math.max(0, used.cachedInput - from.cachedInput),
    output: used.output - from.output,
    calls: used.calls - from.calls,
  }
}

export const none: Used = { input: 0, cachedInput: 0, output: 0, calls: 0 }

export const plus = (a: Used, b: Used): Used => ({
  input: a.input + b.input,
  cachedInput: a.cachedInput + b.cachedInput,
  output: a.output + b.output,
  calls: a.calls + b.calls,
})
export const minus = (a: Used, b: Used): Used => ({
  input: a.input - b.input,
  cachedInput: a.cachedInput - b.cachedInput,
  output: a.output - b.output,
  calls: a.calls - b.calls,
})

/** Tools by which a teammate speaks of work and does none. */
const speaks: ReadonlySet<string> = new Set(['ask_user', 'message', 'request', 'task'])
/** Of a call in a task: did it nothing but speak? `calls`: the tools that its answer called. */
export const isCoordination = (calls: readonly string[]): boolean =>
  calls.length > 0 && calls.every(name => speaks.has(name))

/** Small ones to four digits, as a cap may be smaller than a cent. */
const money = (n: number): number => Number(n >= 1 ? n.toFixed(4) : n.toPrecision(4))

/** `12,000 tokens`, `cost 1.25`. */
export const amount = (unit: Unit, n: number): string =>
  unit === 'tokens' ? `${Math.ceil(n).toLocaleString('en-US')} tokens` : `cost ${money(n)}`

/** `12,000 of 50,000 tokens`, `cost 1.25 of 5`. */
export const usedOf = ({ unit, spent, cap }: { unit: Unit; spent: number; cap: number }): string =>
  unit === 'tokens'
    ? `${Math.ceil(spent).toLocaleString('en-US')} of ${amount(unit, cap)}`
    : `${amount(unit, spent)} of ${money(cap)}`

/** `the team`, `alice`, `task 3`. */
export const whose = ({ scope, of }: Pick<BudgetData, 'scope' | 'of'>): string =>
  scope === 'team' ? 'the team' : scope === 'task' ? `task ${of}` : of

/** What an approval does. */
export const raised = (data: BudgetData): string =>
  `${whose(data)} may use ${amount(data.unit, data.raise)} more, ${amount(data.unit, data.cap + data.raise)} in all`

/** The key of config.json that the cap stands at. */
export const keyOf = ({ scope, unit }: Pick<BudgetData, 'scope' | 'unit'>): string => `budget.${scope}.${unit}`
