export interface Judged {
  readonly name: string
  readonly bound: 'most' | 'least'
  readonly limit: number
  readonly value: number
  readonly met: boolean
}
export function judge (results: object): Judged[]
