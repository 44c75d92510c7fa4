import { costOf } from './amount.ts'
import type { Price, Used } from './budget.ts'
import type { Member, ModelConfig } from './config.ts'

/** A model that takes a call when those before it fail. */
export interface Fallback {
  readonly model: Omit<ModelConfig, 'price'>
  readonly price: Price | null
  /** It takes no call of one that failed: it is asked where little of a cap on cost is left. */
  readonly isCheaper?: true
}

/** How a model is called where people read of it. */
export const labelOf = ({ provider, name }: Pick<ModelConfig, 'provider' | 'name'>): string =>
  `${provider ?? 'openai'}/${name ?? 'default'}`

/** The same for the models of one teammate, in their order: no two are called the same. */
export const labelsOf = (models: readonly Pick<ModelConfig, 'provider' | 'name'>[]): string[] => {
  const labels: string[] = []
  for (const model of models) {
    const label = labelOf(model)
    labels.push(labels.includes(label) ? `${label} (${labels.length + 1})` : label)
  }
  return labels
}

/**
 * An entry of `fallbacks`, complete. One that names a provider or an address stands by itself; any other is the model with those
 * parts changed. What another model costs is never taken over.
 */
export const fallbackOf = (model: ModelConfig, entry: ModelConfig): Fallback => {
  const isOwn = entry.provider !== undefined || entry.baseURL !== undefined
  const { price: _price, ...rest } = isOwn ? {} : model
  const { price, ...own } = entry
  return { model: { ...rest, ...own }, price: price ?? null }
}

type Priced = Pick<Member, 'model' | 'price' | 'fallbacks'>

/** The price of the one of a teammate's models that is called so; of its first where none is. */
export const priceOf = ({ model, price, fallbacks }: Priced, label: string | undefined): Price | null => {
  const at = label === undefined ? 0 : labelsOf([model, ...fallbacks.map(each => each.model)]).indexOf(label)
  return at <= 0 ? price : (fallbacks[at - 1]?.price ?? null)
}

/** What so many tokens cost at most, whichever of the models answers. */
export const mostCost = (priced: Priced | undefined, used: Omit<Used, 'calls'>): number =>
  priced === undefined
    ? 0
    : Math.max(...[priced.price, ...priced.fallbacks.map(({ price }) => price)].map(price => costOf(used, price)))
