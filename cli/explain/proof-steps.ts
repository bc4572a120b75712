import { promisify } from 'node:util'
import { isJsonObject, type JsonObject } from '../../lib/base/json.ts'
import {
  CHECKS_AFTER_SIGNATURE as AFTER,
  CHECKS_BEFORE_SIGNATURE as BEFORE,
  recordProof,
  verifyProofSignature,
  type ProofCheck,
  type ProofPolicy
} from '../../lib/guard/dpop/proof.ts'
import { readProofLine } from '../../lib/guard/guard.ts'
import { decodeJsonObject } from '../../lib/guard/jose/signed-jwt.ts'
import { PRIVATE_MEMBERS, thumbprint } from '../../lib/guard/jose/public-key.ts'
import type { Examination } from './examination.ts'
import {
  judgedAt,
  NotChecked,
  requireClaims,
  show,
  showForm,
  showMembers,
  showTimes,
  type Compared,
  type Step,
  type StepText
} from './step.ts'

const mayNeedProof = ({ credentials, options }: Examination) =>
  credentials ? credentials.scheme === 'DPoP' : options.settings.idp.dpopMode !== 'DISABLED'

const jsonOf = ({ proof }: Examination, part: 'header' | 'payload') =>
  proof?.jws && decodeJsonObject(proof.jws[part])
const claims = (e: Examination, ...names: string[]) => showMembers(jsonOf(e, 'payload'), names)
const iat = (e: Examination) => showTimes(jsonOf(e, 'payload'), ['iat'], e)

/** A client may send the private half by mistake, and a report goes to others. */
function withoutPrivateKey ({ jwk, ...header }: JsonObject = {}): JsonObject {
  const found = PRIVATE_MEMBERS.filter(name => isJsonObject(jwk) && Object.hasOwn(jwk, name))
  const hidden = Object.fromEntries(found.map(name => [name, '(not shown)']))
  return { ...header, jwk: found.length > 0 ? { ...jwk as JsonObject, ...hidden } : jwk }
}

/** What is said of the checks that look into the proof. */
const TEXTS: Readonly<Record<(typeof BEFORE | typeof AFTER)[number]['name'], StepText>> = {
  form: {
    title: 'The proof is a signed JWT of at most 8 KiB',
    failed: 'The proof is not a signed JWT of at most 8 KiB',
    compared: ({ proof }) => showForm(proof?.proof)
  },
  header: {
    title: 'Its header names an accepted algorithm and a public key for it',
    failed: 'Its header has no accepted algorithm, or no public key for it',
    compared: e => [
      ...showMembers(withoutPrivateKey(jsonOf(e, 'header')), ['typ', 'alg', 'jwk', 'crit']),
      ['accepted algorithms', e.options.settings.dpop.algs.join(' ')],
      ['thumbprint of jwk', show(e.proof?.header && thumbprint(e.proof.header.jwk))]
    ]
  },
  claims: {
    title: 'Its claims are there, of the right types, and valid now',
    failed: 'One of its claims is missing, of the wrong type, or says that it is not valid now',
    compared: e => [...claims(e, 'jti', 'htm', 'htu', 'ath', 'iat', 'exp', 'nbf', 'nonce'), judgedAt(e)]
  },
  htm: {
    title: 'It was made for this method',
    failed: 'It was made for another method',
    compared: e => [...claims(e, 'htm'), ['method', show(e.request.method)]]
  },
  htu: {
    title: 'It was made for this URL',
    failed: 'It was made for another URL',
    compared: e => [...claims(e, 'htu'), ...requestUrl(e)]
  },
  iat: {
    title: 'It was made just now',
    failed: 'It was made too long ago, or in the future',
    compared: e => [...iat(e), judgedAt(e), [
      'accepted',
      e.policy.nonces
        ? 'any time, because the nonce tells the age'
        : `from ${e.policy.iatOffsetSeconds} s ago to ${e.policy.iatLeewaySeconds} s ahead`
    ]]
  },
  ath: {
    title: 'It was made for this token',
    failed: 'It was made for another token',
    compared: e => [...claims(e, 'ath'), ['hash of the token', show(e.verified?.tokenHash)]]
  },
  jkt: {
    title: 'Its key is the one that the token is bound to',
    failed: 'Its key is not the one that the token is bound to',
    compared: ({ proof, verified }) => [
      ['thumbprint of jwk', show(proof?.header?.jkt)],
      ['cnf.jkt of the token', show(verified?.binding.jkt)]
    ]
  },
  nonce: {
    title: 'If nonces are required, it has a recent one from this service',
    failed: 'It has no recent nonce of this service',
    compared: e => [...claims(e, 'nonce'), ['DPOP_NONCE', e.options.settings.dpop.nonce]]
  },
  'iat-beside-nonce': {
    title: 'If its age counts beside a nonce, it was made just now',
    failed: 'It was made too long ago, or in the future, and its age counts beside the nonce',
    compared: e => [...iat(e), ['DPOP_NONCE_IAT', e.options.settings.dpop.nonceIat]]
  }
}

/** The checks of the proof, in the guard's order. */
export const PROOF_STEPS: readonly Step[] = [
  {
    name: 'proof',
    applies: mayNeedProof,
    run: takeProof,
    title: 'There is one proof',
    failed: 'There is no proof, or more than one',
    compared: ({ message }) => [['DPoP lines', show(message.dpopCount)], ['characters', show(message.dpop?.length)]]
  },
  ...BEFORE.map(lookInto),
  {
    name: 'proof.signature',
    applies: mayNeedProof,
    run: e => promisify(verifyProofSignature)(e.proof!, policyOf(e)),
    title: 'Its signature was made with that key',
    failed: 'Its signature was not made with that key',
    compared: e => showMembers(jsonOf(e, 'header'), ['alg'])
  },
  ...AFTER.map(lookInto),
  {
    name: 'proof.replay',
    applies: mayNeedProof,
    run: record,
    title: 'It was not used before',
    failed: 'It was used before',
    compared: e => claims(e, 'jti')
  }
]

function lookInto ({ name, run }: ProofCheck & { readonly name: keyof typeof TEXTS }): Step {
  return {
    name: `proof.${name}`,
    applies: mayNeedProof,
    run (e) {
      if (name === 'jkt') requireClaims(e)
      run(e.proof!, policyOf(e))
      if (name === 'nonce' && e.noncesAreUnknown) {
        throw new NotChecked(
          'The service makes its nonces from a secret that this tool does not have (DPOP_NONCE_SECRET).'
        )
      }
    },
    ...TEXTS[name]
  }
}

const policyOf = ({ policy }: Examination) => policy as ProofPolicy

function requestUrl ({ proof, request, message, options }: Examination): Compared {
  return proof?.url
    ? [['URL of the request', proof.url.href]]
    : [
        ['request target', show(request.target)],
        ['Host', show(message.host)],
        ['PUBLIC_URL', show(options.settings.server.publicUrl)]
      ]
}

function takeProof (e: Examination) {
  const { tokenHash, binding } = e.verified!
  e.proof = {
    proof: readProofLine(e.message),
    method: e.request.method,
    tokenHash,
    tokenJkt: binding.jkt!,
    requestUrl: e.resolveUrl,
    now: e.options.now
  }
}

async function record (e: Examination) {
  const { replay } = e.options
  if (!replay) {
    throw new NotChecked(
      'Only the running service knows which proofs it has seen. A captured proof that was accepted once is ' +
        'refused if it is sent again.'
    )
  }
  await promisify(recordProof)(e.proof!, { replay })
}
