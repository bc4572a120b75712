/* eslint-disable */
// Made from the OpenAPI document: `npx tap --snapshot test/plugins/openapi.test.ts` makes it anew.
export interface paths {
    "/.well-known/oauth-protected-resource": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Metadata of the protected resource */
        get: operations["getWellKnownOauthProtectedResource"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/admin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What administrators may read
         * @description Needs a valid access token with `admin`.
         */
        get: operations["getApiAdmin"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/admin/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What administrators may read
         * @description Needs a valid access token with `admin`.
         */
        get: operations["getApiAdminPath"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/private": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Who calls
         * @description Needs a valid access token.
         */
        get: operations["getApiPrivate"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/private-scoped": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Who calls, if they may read messages
         * @description Needs a valid access token with `read:messages`.
         */
        get: operations["getApiPrivateScoped"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/profile": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What the token says of who calls
         * @description Needs a valid access token.
         */
        get: operations["getApiProfile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/protected": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What anyone with a token may read
         * @description Needs a valid access token.
         */
        get: operations["getApiProtected"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/public": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What anyone may read */
        get: operations["getApiPublic"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What those may read who read or write users
         * @description Needs a valid access token with `read:users`, or `write:users`.
         */
        get: operations["getApiUsers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What those may read who read or write users
         * @description Needs a valid access token with `read:users`, or `write:users`.
         */
        get: operations["getApiUsersPath"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the process answers, and which build it is */
        get: operations["getHealthLive"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the service can decide about tokens and proofs */
        get: operations["getHealthReady"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Metrics for Prometheus */
        get: operations["getMetrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Refusal: {
            statusCode: number;
            error: string;
            message: string;
        };
        Failure: {
            statusCode: number;
            error: string;
            message: string;
        };
    };
    responses: {
        /** @description The credentials are missing or were refused. */
        Unauthorized: {
            headers: {
                /** @description The challenges of the accepted schemes, in one line (RFC 6750, RFC 9449 section 7.1). */
                "WWW-Authenticate": string;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Refusal"];
            };
        };
        /** @description The token is valid, but it lacks something that this resource needs. */
        Forbidden: {
            headers: {
                /** @description The challenges of the accepted schemes, in one line (RFC 6750, RFC 9449 section 7.1). */
                "WWW-Authenticate": string;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Refusal"];
            };
        };
        /** @description The client has sent as many requests as it may for now. */
        TooManyRequests: {
            headers: {
                /** @description Seconds to wait before the next try. */
                "Retry-After": number;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
        /** @description The service could not decide about the request, or it is overloaded. The client can send the request again. */
        Unavailable: {
            headers: {
                /** @description Seconds to wait before the next try. */
                "Retry-After": number;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Failure"];
            };
        };
    };
    parameters: {
        /** @description A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC 9449 section 4). */
        DPoP: string;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    getWellKnownOauthProtectedResource: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Metadata of this protected resource (RFC 9728). */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        resource: string;
                        authorization_servers?: string[];
                        scopes_supported?: string[];
                        bearer_methods_supported: string[];
                        resource_name?: string;
                        resource_documentation?: string;
                        dpop_bound_access_tokens_required: boolean;
                        dpop_signing_alg_values_supported?: string[];
                        tls_client_certificate_bound_access_tokens?: boolean;
                    };
                };
            };
        };
    };
    getApiAdmin: {
        parameters: {
            query?: never;
            header?: {
                /** @description A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC 9449 section 4). */
                DPoP?: components["parameters"]["DPoP"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        message: string;
                    };
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    getApiAdminPath: {
        parameters: {
            query?: never;
            header?: {
                /** @description A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC 9449 section 4). */
                DPoP?: components["parameters"]["DPoP"];
            };
            path: {
                /** @description The rest of the path. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        message: string;
                    };
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    getApiPrivate: {
        parameters: {
            query?: never;
            header?: {
                /** @description A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC 9449 section 4). */
                DPoP?: components["parameters"]["DPoP"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        message: string;
                        user_id: string;
                    };
                };
            };
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    getApiPrivateScoped: {
        parameters: {
            query?: never;
            header?: {
                /** @description A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC 9449 section 4). */
                DPoP?: components["parameters"]["DPoP"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        message: string;
                        user_id: string;
                    };
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    getApiProfile: {
        parameters: {
            query?: never;
            header?: {
                /** @description A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC 9449 section 4). */
                DPoP?: components["parameters"]["DPoP"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        user_id: string;
                        email: string | null;
                        permissions: string[];
                        custom_claim: unknown;
                    };
                };
            };
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    getApiProtected: {
        parameters: {
            query?: never;
            header?: {
                /** @description A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC 9449 section 4). */
                DPoP?: components["parameters"]["DPoP"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        message: string;
                    };
                };
            };
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    getApiPublic: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        message: string;
                    };
                };
            };
            503: components["responses"]["Unavailable"];
        };
    };
    getApiUsers: {
        parameters: {
            query?: never;
            header?: {
                /** @description A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC 9449 section 4). */
                DPoP?: components["parameters"]["DPoP"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        message: string;
                    };
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    getApiUsersPath: {
        parameters: {
            query?: never;
            header?: {
                /** @description A fresh proof for exactly this request. It goes with an access token that is sent with the DPoP scheme (RFC 9449 section 4). */
                DPoP?: components["parameters"]["DPoP"];
            };
            path: {
                /** @description The rest of the path. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        message: string;
                    };
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
        };
    };
    getHealthLive: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        status?: string;
                        version?: string;
                        /** @description What it was built from, if the build says so. */
                        commit?: string;
                    };
                };
            };
        };
    };
    getHealthReady: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        status?: string;
                        checks?: {
                            [key: string]: string;
                        };
                        /** @description The stream of each transmitter of security events. */
                        streams?: {
                            [key: string]: {
                                status?: string;
                                /** @description Unix seconds of its last verification. */
                                verifiedAt?: number;
                            };
                        };
                        /** @description The state of the keys of each issuer, if there are several. */
                        issuers?: {
                            [key: string]: string;
                        };
                    };
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        status?: string;
                        checks?: {
                            [key: string]: string;
                        };
                        /** @description The stream of each transmitter of security events. */
                        streams?: {
                            [key: string]: {
                                status?: string;
                                /** @description Unix seconds of its last verification. */
                                verifiedAt?: number;
                            };
                        };
                        /** @description The state of the keys of each issuer, if there are several. */
                        issuers?: {
                            [key: string]: string;
                        };
                    };
                };
            };
        };
    };
    getMetrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The metrics, in the text format of Prometheus. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
}
